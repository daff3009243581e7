// Filters, comparison of any two runs, and printing; the tables of claims and runs can be read without any of it.

const root = document.documentElement;
const byId = id => document.getElementById(id);

// ---- Pictures, made when they are first seen.

const see = figure => {
  if (pictures.has(figure)) return redraw(figure);
  present(figure, plotOf(figure.id));
  sync(figure);
};
const isSeen = figure => !figure.closest('details:not([open]), [hidden]');
const seeAll = () => all('figure[id]').filter(isSeen).forEach(see);
for (const details of all('details.point')) {
  details.addEventListener('toggle', () => details.open && all('figure[id]', details).forEach(see));
}
addEventListener('resize', seeAll);
// On paper every figure that filters leave, folded or not, and narrow: two stand side by side.
addEventListener('beforeprint', () => {
  for (const details of all('details.point')) details.open = true;
  for (const figure of all('figure[id]')) {
    if (figure.closest('[hidden]')) continue;
    if (!pictures.has(figure)) present(figure, plotOf(figure.id), NARROW);
    redraw(figure, NARROW);
    sync(figure);
  }
});
addEventListener('afterprint', seeAll);

// ---- Filters: what has a mark of that kind and not this value is hidden.

const filters = byId('filters');
const selects = all('select[data-filter]', filters);
const holds = (marked, kind, value) => (marked.dataset[kind] ?? '').split(' ').includes(value);
// Takes the lines of runs that filters hide out of a picture.
const sync = figure => {
  const shows = figure.closest('details.point')?.dataset.shows?.split(' ');
  for (const button of all('.legend button[data-run]', figure)) {
    const is = !shows || !button.dataset.run || shows.includes(button.dataset.run);
    if ((button.getAttribute('aria-pressed') === 'true') !== is) button.click();
  }
};
const filter = () => {
  const wanted = selects.filter(select => select.value).map(select => [select.dataset.filter, select.value]);
  const rows = all('tr[data-experiment]');
  for (const row of rows) {
    const kinds = row.closest('#overview') ? ['experiment', 'verdict'] : ['experiment', 'server', 'policy', 'verdict'];
    row.hidden = !wanted.every(([kind, value]) => !kinds.includes(kind) || holds(row, kind, value));
  }
  // A verdict is about claims, so only the others take lines out of the pictures.
  const narrows = wanted.some(([kind]) => kind === 'server' || kind === 'policy');
  for (const point of all('details.point')) {
    const shown = all('table.runs tr[data-run]', point).filter(row => !row.hidden).map(row => row.dataset.run);
    point.hidden = shown.length === 0;
    if (narrows) point.dataset.shows = shown.join(' ');
    else delete point.dataset.shows;
    all('figure[id]', point).forEach(sync);
  }
  for (const chapter of all('section.chapter')) {
    const isOf = wanted.every(([kind, value]) => kind !== 'experiment' || holds(chapter, kind, value));
    const mine = all('tr[data-experiment]', chapter);
    chapter.hidden = !isOf || (mine.length > 0 && mine.every(row => row.hidden));
  }
  const shown = rows.filter(row => !row.hidden && !row.closest('#overview'));
  const claims = shown.filter(row => 'claim' in row.dataset).length;
  byId('shown').value = `${claims} claims, ${shown.length - claims} runs shown`;
  root.dataset.shown = `${claims} ${shown.length - claims}`;
  seeAll();
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
const nameOf = run => [run.e, run.p, run.n].filter(Boolean).join(' / ') + (run.v ? ' (void)' : '') + (run.w ? ' (not a wire)' : '');
for (const select of [first, second]) {
  data.runs.forEach((run, at) => element('option', nameOf(run), select, { value: at }));
}
const pairOf = (a, b) => {
  for (const [from, pairs] of data.pairs) {
    const found = pairs.find(pair => pair[0] === a - from && pair[1] === b - from);
    if (found) return found;
  }
  return null;
};
// Both lines over the places of either, which differ where the requests do.
const overlay = (id, runs) => {
  const sources = runs.map((run, n) => {
    const key = `${run.k}-${id}`;
    const plot = data.plots[key] && plotOf(key);
    const line = plot?.lines.find(line => line.name === run.n);
    return line && { plot, line: { ...line, name: nameOf(run), look: `c${n} d${n}${run.v ? ' void' : ''}` } };
  }).filter(Boolean);
  if (sources.length === 0) return null;
  const xs = [...new Set(sources.flatMap(({ plot }) => plot.xs))].sort((a, b) => a - b);
  const lines = sources.map(({ plot, line }) => {
    const at = new Map(plot.xs.map((x, n) => [x, n]));
    const along = values => xs.map(x => at.has(x) ? values[at.get(x)] ?? null : null);
    return { ...line, v: undefined, y: along(line.y), h: line.h && along(line.h) };
  });
  return { ...sources[0].plot, xs, shaded: sources[0].plot.shaded, lines };
};
const OVERLAID = ['ccdf', 'by-size', 'slowdown-by-size', 'by-percentile', 'time', 'connections'];
const STRETCHES = ['requests that gain', 'requests with a stretch above 1', 'median stretch', '99th percentile of stretch',
  'largest stretch', 'stretch of the largest response'];
const compareTable = (a, b, runs, into) => {
  const grid = element('table', null, into);
  const head = element('tr', null, element('thead', null, grid));
  ['', 'baseline', 'against', 'baseline / against'].forEach(name => element('th', name, head, { scope: 'col' }));
  const apart = runs[0].c !== runs[1].c;
  const body = element('tbody', null, grid);
  data.figures.forEach((name, at) => {
    const [base, mine] = runs.map(run => run.f[at]);
    if (base === null && mine === null) return;
    const row = element('tr', null, body);
    element('td', name, row);
    for (const value of [base, mine]) element('td', written('number', value), row, { class: 'value' });
    const ratio = base !== null && mine && !apart ? base / mine : null;
    // Of bytes and completions more is not worse, so only times are marked.
    const times = /ms|slowdown|SCV/.test(name) && ratio !== null;
    const looks = times && ratio < 1 / 1.1 ? ' worse' : times && ratio > 1.1 ? ' better' : '';
    element('td', ratio === null ? '–' : `${digits(ratio)} ×`, row, { class: `value${looks}` });
  });
  const pair = apart ? null : pairOf(a, b);
  if (pair) {
    STRETCHES.forEach((name, at) => {
      const row = element('tr', null, body);
      element('td', name, row);
      element('td', written(at < 2 ? 'percent' : 'number', pair[at + 2]), row, { class: 'value', colspan: 3 });
    });
  } else if (a !== b && !apart) {
    element('td', 'Their requests differ: they are not matched one by one.', element('tr', null, body), { colspan: 4 });
  }
  if (apart) element('p', `Not comparable: ${runs.map(run => `${run.n}: ${run.c}`).join('; ')}.`, into, { class: 'note' });
  for (const run of runs) {
    if (run.v) element('p', `Void: ${run.n}. ${run.v}`, into, { class: 'note' });
    if (run.w) element('p', `Not a wire: ${run.n}. ${run.w}`, into, { class: 'note' });
  }
};
const compare = () => {
  const [a, b] = [Number(first.value), Number(second.value)];
  const runs = [data.runs[a], data.runs[b]];
  const [table, plots] = [byId('compare-table'), byId('compare-plots')];
  table.replaceChildren();
  plots.replaceChildren();
  if (!runs[0] || !runs[1]) return;
  compareTable(a, b, runs, table);
  for (const plot of OVERLAID.map(id => overlay(id, runs)).filter(Boolean)) {
    present(element('figure', null, plots, { class: 'plot' }), plot);
  }
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
  const wanted = (said.get('compare') ?? `0,${data.runs.length > 1 ? 1 : 0}`).split(',').filter(Boolean);
  wanted.forEach((at, n) => { if (n < 2 && data.runs[at]) [first, second][n].value = at; });
  if (said.get('theme')) root.dataset.theme = said.get('theme');
  const isOpen = said.get('open') === 'all';
  if (isOpen) for (const details of all('details.point')) details.open = true;
  filter();
  compare();
  if (isOpen) {
    for (const details of all('details.table')) {
      details.open = true;
      tabulate(details, pictures.get(details.closest('figure')).plot);
    }
  }
};
root.dataset.ready = '1';
addEventListener('hashchange', address);
address();
