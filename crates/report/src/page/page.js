'use strict';
// Values under the pointer, tables behind plots, filters, comparison of two runs. Everything it needs is in #data.
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById('data').textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const byId = id => document.getElementById(id);

  // ---- Axes, as the program that drew the plots has them.

  const places = {
    linear: { of: v => v, has: Number.isFinite },
    log: { of: Math.log10, has: v => v > 0 },
    nines: { of: v => -Math.log10(1 - v), has: v => v >= 0 && v < 1 },
  };
  const place = (axis, value) => {
    const scale = places[axis.s];
    const [low, high] = axis.r.map(scale.of);
    const at = scale.of(Math.min(Math.max(value, axis.r[0]), axis.r[1]));
    return axis.p[0] + (axis.p[1] - axis.p[0]) * (at - low) / (high - low);
  };

  const units = {
    bytes: [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'KB'], [1, 'B']],
    ms: [[1e3, 's'], [1, 'ms'], [1e-3, 'µs'], [1e-6, 'ns']],
  };
  const digits = value => String(Number(value.toPrecision(4)));
  const written = (unit, value) => {
    if (value === null || value === undefined) return '–';
    if (unit === 'percent') return digits(value * 100) + ' %';
    if (!units[unit]) return Math.abs(value) >= 1e5 ? value.toPrecision(4) : digits(value);
    const [scale, name] = units[unit].find(([scale]) => value >= scale) || units[unit].at(-1);
    return digits(value / scale) + ' ' + name;
  };
  const writtenX = (plot, at) => plot.names ? plot.names[at] : written(plot.x.u, plot.xs[at]);

  const element = (name, text, parent, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  };

  // ---- Values under the pointer, or by the arrow keys of a plot that has the focus.

  const tip = byId('tip');
  const show = (svg, at, x, y) => {
    const plot = data.plots[svg.dataset.plot];
    svg.dataset.at = at;
    const cursor = svg.querySelector('.cursor');
    const px = place(plot.x, plot.xs[at]);
    for (const [key, value] of [['x1', px], ['x2', px], ['y1', plot.y.p[1]], ['y2', plot.y.p[0]]]) cursor.setAttribute(key, value);
    cursor.removeAttribute('hidden');
    tip.replaceChildren();
    element('b', `${plot.x.t}: ${writtenX(plot, at)}`, tip);
    plot.l.forEach((line, n) => {
      if (line.y[at] === null || svg.querySelector(`[data-line="${n}"]`)?.hasAttribute('hidden')) return;
      const row = element('div', null, tip);
      const name = element('span', null, row, { class: line.k });
      element('i', null, name);
      name.append(line.n);
      const half = line.h && line.h[at] ? ` ± ${written(plot.y.u, line.h[at])}` : '';
      element('span', written(plot.y.u, line.y[at]) + half, row);
    });
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 4))}px`;
  };
  const hide = svg => {
    tip.hidden = true;
    svg.querySelector('.cursor').setAttribute('hidden', '');
  };
  const nearest = (plot, px) => {
    let best = 0;
    plot.xs.forEach((x, at) => {
      const is = plot.l.some(line => line.y[at] !== null);
      if (is && Math.abs(place(plot.x, x) - px) < Math.abs(place(plot.x, plot.xs[best]) - px)) best = at;
    });
    return best;
  };
  for (const svg of all('svg[data-plot]')) {
    const plot = data.plots[svg.dataset.plot];
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      show(svg, nearest(plot, (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width), event.clientX, event.clientY);
    });
    svg.addEventListener('pointerleave', () => hide(svg));
    svg.addEventListener('blur', () => hide(svg));
    svg.addEventListener('keydown', event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const before = Number(svg.dataset.at ?? (step > 0 ? -1 : plot.xs.length));
      const at = Math.min(Math.max(before + step, 0), plot.xs.length - 1);
      const box = svg.getBoundingClientRect();
      show(svg, at, box.left + place(plot.x, plot.xs[at]) / svg.viewBox.baseVal.width * box.width, box.top);
    });
  }
  for (const button of all('.legend button')) {
    button.addEventListener('click', () => {
      const is = button.getAttribute('aria-pressed') === 'true';
      button.setAttribute('aria-pressed', String(!is));
      const line = button.closest('figure').querySelector(`svg[data-plot] [data-line="${button.dataset.line}"]`);
      line.toggleAttribute('hidden', is);
    });
  }

  // ---- The table behind a plot, made when it is first opened.

  const fill = details => {
    if (details.querySelector('table')) return;
    const plot = data.plots[details.dataset.table];
    const table = element('table', null, element('div', null, details, { class: 'scroll', tabindex: 0 }));
    const head = element('tr', null, element('thead', null, table));
    [plot.x.t, ...plot.l.map(line => line.n)].forEach(name => element('th', name, head, { scope: 'col' }));
    const body = element('tbody', null, table);
    plot.xs.forEach((_, at) => {
      if (plot.l.every(line => line.y[at] === null)) return;
      const row = element('tr', null, body);
      element('td', writtenX(plot, at), row, { class: 'value' });
      plot.l.forEach(line => {
        const half = line.h && line.h[at] ? ` ± ${written(plot.y.u, line.h[at])}` : '';
        element('td', written(plot.y.u, line.y[at]) + half, row, { class: 'value' });
      });
    });
  };
  for (const details of all('details[data-table]')) details.addEventListener('toggle', () => details.open && fill(details));

  // ---- Filters: what has a mark of that kind and not this value is hidden.

  const filters = byId('filters');
  const selects = all('select[data-filter]', filters);
  const holds = (marked, kind, value) => (marked.dataset[kind] ?? '').split(' ').includes(value);
  const filter = () => {
    const wanted = selects.filter(select => select.value).map(select => [select.dataset.filter, select.value]);
    const rows = all('tr[data-experiment]');
    for (const row of rows) {
      const kinds = row.closest('#overview') ? ['experiment', 'verdict'] : ['experiment', 'server', 'policy', 'verdict'];
      row.hidden = !wanted.every(([kind, value]) => !kinds.includes(kind) || holds(row, kind, value));
    }
    for (const point of all('details.point')) {
      const shown = all('table.runs tr[data-run]', point).filter(row => !row.hidden).map(row => row.dataset.run);
      point.hidden = shown.length === 0;
      // A verdict is about claims, so only the others take lines out of the pictures.
      const narrows = wanted.some(([kind]) => kind === 'server' || kind === 'policy');
      for (const button of all('.legend button[data-run]', point)) {
        const is = !narrows || !button.dataset.run || shown.includes(button.dataset.run);
        if ((button.getAttribute('aria-pressed') === 'true') !== is) button.click();
      }
    }
    for (const chapter of all('section.chapter')) {
      chapter.hidden = !all('tr[data-experiment]', chapter).some(row => !row.hidden);
    }
    const shown = rows.filter(row => !row.hidden && !row.closest('#overview'));
    const claims = shown.filter(row => 'claim' in row.dataset).length;
    byId('shown').value = `${claims} claims, ${shown.length - claims} runs shown`;
    root.dataset.shown = `${claims} ${shown.length - claims}`;
  };
  filters.addEventListener('change', () => {
    const set = selects.filter(select => select.value).map(select => `${select.dataset.filter}:${select.value}`);
    history.replaceState(null, '', set.length ? `#filter=${set.join(',')}` : location.pathname + location.search);
    filter();
  });
  filters.addEventListener('reset', () => setTimeout(() => filters.dispatchEvent(new Event('change'))));
  byId('theme').addEventListener('click', () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });

  // ---- Two runs.

  const [first, second] = [byId('compare-a'), byId('compare-b')];
  const nameOf = run => [run.e, run.p, run.n].filter(Boolean).join(' / ') + (run.v ? ' (void)' : '');
  for (const select of [first, second]) {
    data.runs.forEach((run, at) => element('option', nameOf(run), select, { value: at }));
  }
  second.value = data.runs.length > 1 ? 1 : 0;

  const pairOf = (a, b) => {
    for (const [from, pairs] of data.pairs) {
      const found = pairs.find(pair => pair[0] === a - from && pair[1] === b - from);
      if (found) return found;
    }
    return null;
  };
  const svgElement = (name, attributes, parent) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  };
  // Both lines on axes that cover both, drawn on the raster of the other plots.
  const overlay = (title, sources, into) => {
    const lines = sources.filter(Boolean).map(([key, line]) => ({ plot: data.plots[key], line: data.plots[key].l[line] }));
    if (lines.length === 0) return;
    const cover = (axis, values) => {
      const fit = values.filter(places[axis.s].has);
      return { ...axis, r: [Math.min(...fit), Math.max(...fit) * 1.0001] };
    };
    const model = lines[0].plot;
    const points = lines.map(({ plot, line }) => plot.xs.map((x, at) => [x, line.y[at]]).filter(([x, y]) =>
      y !== null && places[model.x.s].has(x) && places[model.y.s].has(y)));
    const x = cover(model.x, points.flat().map(([x]) => x));
    const y = cover(model.y, points.flat().map(([, y]) => y));
    element('h3', title, into);
    const svg = svgElement('svg', { viewBox: '0 0 760 400', role: 'img', 'aria-label': title }, into);
    for (const [axis, along] of [[x, true], [y, false]]) {
      const decades = axis.r.map(v => Math.log10(v));
      const step = Math.max(1, Math.ceil((decades[1] - decades[0]) / 10));
      for (let decade = Math.ceil(decades[0]); decade <= decades[1]; decade += step) {
        const at = place(axis, 10 ** decade);
        const label = svgElement('text', along ? { x: at, y: 364, 'text-anchor': 'middle' } : { x: 60, y: at + 4, 'text-anchor': 'end' }, svg);
        label.textContent = written(axis.u, 10 ** decade);
        svgElement('path', { class: 'grid', d: along ? `M${at} ${y.p[1]}V${y.p[0]}` : `M${x.p[0]} ${at}H${x.p[1]}` }, svg);
      }
    }
    svgElement('text', { class: 'axis', x: 407, y: 388, 'text-anchor': 'middle' }, svg).textContent = x.t;
    points.forEach((line, n) => {
      const path = line.map(([px, py]) => `${place(x, px).toFixed(1)} ${place(y, py).toFixed(1)}`).join('L');
      const group = svgElement('g', { class: `line c${n}` }, svg);
      svgElement('path', { d: `M${path}` }, group);
    });
  };
  const compare = () => {
    const [a, b] = [Number(first.value), Number(second.value)];
    const runs = [data.runs[a], data.runs[b]];
    const [table, plots] = [byId('compare-table'), byId('compare-plots')];
    table.replaceChildren();
    plots.replaceChildren();
    if (!runs[0] || !runs[1]) return;
    const grid = element('table', null, table);
    const head = element('tr', null, element('thead', null, grid));
    ['', 'baseline', 'against', 'baseline / against'].forEach(name => element('th', name, head, { scope: 'col' }));
    const body = element('tbody', null, grid);
    data.figures.forEach((name, at) => {
      const [base, mine] = runs.map(run => run.f[at]);
      if (base === null && mine === null) return;
      const row = element('tr', null, body);
      element('td', name, row);
      for (const value of [base, mine]) element('td', written('number', value), row, { class: 'value' });
      const ratio = base !== null && mine ? base / mine : null;
      // Of bytes and completions more is not worse, so only times are marked.
      const times = /ms|slowdown|SCV/.test(name) && ratio !== null;
      const mark = times && ratio < 1 / 1.1 ? ' worse' : times && ratio > 1.1 ? ' better' : '';
      element('td', ratio === null ? '–' : `${digits(ratio)} ×`, row, { class: `value${mark}` });
    });
    const pair = pairOf(a, b);
    const stretches = ['requests that gain', 'requests with a stretch above 1', 'median stretch', '99th percentile of stretch', 'largest stretch', 'stretch of the largest response'];
    if (pair) {
      stretches.forEach((name, at) => {
        const row = element('tr', null, body);
        element('td', name, row);
        element('td', written(at < 2 ? 'percent' : 'number', pair[at + 2]), row, { class: 'value', colspan: 3 });
      });
    } else if (a !== b) {
      element('td', 'Their requests differ: they are not matched one by one.', element('tr', null, body), { colspan: 4 });
    }
    for (const run of runs) if (run.v) element('p', `Void: ${run.n}. ${run.v}`, table, { class: 'note' });
    const legend = element('ul', null, plots, { class: 'legend' });
    runs.forEach((run, n) => {
      const entry = element('li', null, legend);
      const swatch = svgElement('svg', { viewBox: '0 0 26 10', 'aria-hidden': true }, entry);
      svgElement('path', { d: 'M1 5h24' }, svgElement('g', { class: `line c${n}` }, swatch));
      entry.append(nameOf(run));
    });
    overlay('Share of requests that take longer', runs.map(run => run.ccdf), plots);
    overlay('Mean response time by size', runs.map(run => run.size), plots);
    root.dataset.compared = `${a} ${b}`;
  };
  first.addEventListener('change', compare);
  second.addEventListener('change', compare);

  // ---- The address says what is shown: #filter=verdict:void,server:weir&compare=0,3&open=all&theme=dark

  const address = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    for (const select of selects) select.value = '';
    for (const one of (said.get('filter') ?? '').split(',').filter(Boolean)) {
      const [kind, value] = one.split(':');
      const select = selects.find(select => select.dataset.filter === kind);
      if (select) select.value = value;
    }
    const wanted = (said.get('compare') ?? '').split(',').filter(Boolean);
    wanted.forEach((at, n) => { if (data.runs[at]) [first, second][n].value = at; });
    if (said.get('theme')) root.dataset.theme = said.get('theme');
    if (said.get('open') === 'all') for (const details of all('details')) { details.open = true; if (details.dataset.table) fill(details); }
    filter();
    compare();
  };
  addEventListener('hashchange', address);
  addEventListener('beforeprint', () => all('details.point').forEach(details => { details.open = true; }));
  address();
  root.dataset.ready = '1';
})();
