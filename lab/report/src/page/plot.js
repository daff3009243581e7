// Draws plots from their numbers: axes, lines, what the pointer shows, and the table behind. Everything is in #data once; a picture
// is made when it is first seen or printed, in one of two sizes, so that its text is legible on a desk, on a telephone and on paper.

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const data = JSON.parse(document.getElementById('data').textContent);

const element = (name, text, parent, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
};
const drawn = (name, attributes, parent, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
};

// ---- How values are written.

const units = {
  bytes: [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'KB'], [1, 'B']],
  ms: [[1e3, 's'], [1, 'ms'], [1e-3, 'µs'], [1e-6, 'ns']],
};
const digits = value => String(Number(value.toPrecision(4)));
const exponential = value => Number(value.toPrecision(3)).toExponential().replace('+', '');
const written = (unit, value) => {
  if (value === null || value === undefined) return '–';
  if (unit === 'percent') return digits(value * 100) + ' %';
  if (!units[unit]) return Math.abs(value) >= 1e7 ? exponential(value) : digits(value);
  const rounded = Number(value.toPrecision(4));
  const [scale, name] = units[unit].find(([scale]) => rounded >= scale) || units[unit].at(-1);
  return digits(value / scale) + ' ' + name;
};
const writtenX = (plot, at) => plot.names ? plot.names[at] : written(plot.x.u, plot.xs[at]);
const writtenY = (plot, line, at) => {
  const half = line.h?.[at] ? ` ± ${written(plot.y.u, line.h[at])}` : '';
  return written(plot.y.u, line.y[at]) + half + (line.v?.includes(at) ? ' (void)' : '');
};

// ---- Plots, put together from what they share.

const plotOf = key => {
  const { k, x, s, l } = data.plots[key];
  const lines = l.map(({ n, ...line }) => ({ name: data.lines[n][0], look: data.lines[n][1], ...line }));
  return { ...data.kinds[k], xs: data.xs[x].v, names: data.xs[x].names, shaded: data.shades[s] ?? [], lines };
};
const isVoid = line => line.look.split(' ').includes('void');
const slug = name => name.replace(/[^a-z0-9]/giu, '-').toLowerCase();

// ---- Axes. A place is where a value stands on a scale that is linear on the paper.

const scales = {
  linear: { of: v => v, has: Number.isFinite },
  log: { of: Math.log10, has: v => v > 0 && Number.isFinite(v) },
  nines: { of: v => -Math.log10(1 - v), has: v => v >= 0 && v < 1 },
};
const has = (axis, value) => value !== null && value !== undefined && scales[axis.s].has(value);
// From the least to the greatest place, with a little room, and from zero where values reach far down to it: heights compare.
const cover = (axis, values) => {
  const { s, u } = axis;
  const places = values.filter(value => has(axis, value)).map(scales[s].of);
  if (places.length === 0) return [0, 1];
  let [low, high] = [Math.min(...places), Math.max(...places)];
  if (s === 'linear' && low === 0 && high === 0) return [0, 1];
  const least = s === 'linear' ? (high > low ? 0 : 0.04 * Math.abs(high)) : high > low ? 0.05 : 0.15;
  const room = Math.max(0.04 * (high - low), least);
  low = (s === 'linear' && low >= 0 && low < 0.3 * high) || (s === 'nines' && low < 1) ? 0 : low - room;
  high = s === 'log' && u === 'percent' ? Math.min(high + room, 0) : high + room;
  return [low, high];
};
const linearTicks = ([low, high]) => {
  const wanted = (high - low) / 7;
  const decade = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(digit => digit * decade).find(step => step >= wanted * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); n += 1) ticks.push(Number((n * step).toPrecision(12)));
  return { bold: ticks, fine: [] };
};
// At powers of ten, of few decades also at 2 and 5, of very many only at some.
const logTicks = ([low, high]) => {
  const [bold, fine] = [[], []];
  const every = Math.ceil((high - low) / 12);
  for (let decade = Math.floor(low); decade <= Math.ceil(high); decade += 1) {
    for (let digit = 1; digit < 10; digit += 1) {
      const tick = Number(`${digit}e${decade}`);
      if (Math.log10(tick) < low - 1e-9 || Math.log10(tick) > high + 1e-9) continue;
      const isBold = digit === 1 ? decade % every === 0 : high - low <= 2.5 && (digit === 2 || digit === 5);
      if (isBold) bold.push(tick);
      else if (every === 1) fine.push(tick);
    }
  }
  return { bold, fine };
};
const ninesTicks = ([low, high]) => {
  const [bold, fine] = [[], []];
  for (let decade = 0; decade <= Math.ceil(high); decade += 1) {
    for (let missing = 10; missing > 1; missing -= 1) {
      const tick = 1 - missing * 10 ** (-decade - 1);
      const at = scales.nines.of(tick);
      if (at < low - 1e-9 || at > high + 1e-9) continue;
      (missing === 10 || (decade === 0 && missing === 5) ? bold : fine).push(tick);
    }
  }
  return { bold, fine };
};
const ticksOf = { linear: linearTicks, log: logTicks, nines: ninesTicks };
// Where a value is drawn; what lies outside is at the edge.
const place = (axis, value) => {
  const [low, high] = axis.range;
  const at = Math.min(Math.max(scales[axis.s].of(value), low), high);
  return axis.from + (axis.to - axis.from) * (at - low) / (high - low);
};

// ---- The picture.

const LETTER = 6.8;
const WIDE = { width: 640, height: 320 };
const NARROW = { width: 420, height: 262 };
// Lines with at most so many points have marks at them.
const MARKS_MAX = 24;

const frameOf = (plot, { width, height }) => {
  const longest = Math.max(0, ...(plot.names ?? []).map(name => name.length * LETTER));
  const left = 66;
  const right = width - 12;
  const leans = plot.names && longest + 8 > (right - left) / plot.names.length;
  const bottom = height - 42;
  return { width, height: height + (leans ? Math.min(longest * 0.6, 90) : 0), left, right, top: 8, bottom, leans };
};
const axesOf = (plot, frame) => {
  const isDrawn = at => plot.lines.some(line => has(plot.x, plot.xs[at]) && has(plot.y, line.y[at]));
  const xs = plot.xs.filter((_, at) => isDrawn(at));
  const ys = plot.lines.flatMap(line => line.y.concat(line.y.map((y, at) => line.h?.[at] ? y + line.h[at] : y)));
  const range = plot.names ? [-0.5, plot.names.length - 0.5] : cover(plot.x, xs);
  return {
    x: { ...plot.x, range, from: frame.left, to: frame.right },
    y: { ...plot.y, range: cover(plot.y, ys), from: frame.bottom, to: frame.top },
  };
};
const drawGrid = (svg, plot, frame, { x, y }) => {
  const { left, right, top, bottom } = frame;
  const marksX = plot.names ? { bold: plot.xs, fine: [] } : ticksOf[x.s](x.range);
  const marksY = ticksOf[y.s](y.range);
  for (const kind of ['fine', 'bold']) {
    const d = marksX[kind].map(v => `M${place(x, v).toFixed(1)} ${top}V${bottom}`).concat(
      marksY[kind].map(v => `M${left} ${place(y, v).toFixed(1)}H${right}`));
    drawn('path', { class: kind === 'fine' ? 'fine' : 'grid', d: d.join('') }, svg);
  }
  let free = -Infinity;
  marksX.bold.forEach((value, at) => {
    const [px, text] = [place(x, value), plot.names ? plot.names[at] : written(x.u, value)];
    if (frame.leans) {
      drawn('text', { transform: `translate(${px + 4} ${bottom + 14})rotate(-32)`, 'text-anchor': 'end' }, svg, text);
    } else if (px - text.length * LETTER / 2 > free) {
      const shift = Math.max(0, px + text.length * LETTER / 2 - frame.width);
      drawn('text', { x: px - shift, y: bottom + 16, 'text-anchor': 'middle' }, svg, text);
      free = px + text.length * LETTER / 2 + 8;
    }
  });
  free = Infinity;
  for (const value of marksY.bold) {
    const py = place(y, value);
    if (py + 6 > free) continue;
    const text = y.u === 'number' && value >= 1e5 ? exponential(value) : written(y.u, value);
    drawn('text', { x: left - 5, y: py + 4, 'text-anchor': 'end' }, svg, text);
    free = py - 8;
  }
  drawn('text', { class: 'axis', x: (left + right) / 2, y: frame.height - 6, 'text-anchor': 'middle' }, svg, x.t);
  const middle = (top + bottom) / 2;
  const turned = { class: 'axis', 'text-anchor': 'middle', transform: `translate(11 ${middle})rotate(-90)` };
  drawn('text', turned, svg, y.t);
};
// Names have no order, so their marks are not joined, but stand side by side.
const drawLine = (svg, plot, { x, y }, line, n) => {
  const aside = plot.names ? (n - (plot.lines.length - 1) / 2) * 6 : 0;
  const points = plot.xs.map((_, at) => at).filter(at => has(plot.x, plot.xs[at]) && has(plot.y, line.y[at]));
  const at = points.map(n => [place(x, plot.xs[n]) + aside, place(y, line.y[n])].map(v => v.toFixed(1)).join(' '));
  const isDense = points.length > MARKS_MAX;
  const group = drawn('g', { class: `line ${line.look}${isDense ? ' dense' : ''}`, 'data-line': n }, svg);
  if (!plot.names && at.length > 1) drawn('path', { d: `M${at.join('L')}` }, group);
  const bars = points.filter(n => line.h?.[n]).map(n => {
    const [low, high] = [-1, 1].map(sign => line.y[n] + sign * line.h[n]);
    const foot = has(plot.y, low) ? place(y, low) : y.from;
    return `M${(place(x, plot.xs[n]) + aside).toFixed(1)} ${foot.toFixed(1)}V${place(y, high).toFixed(1)}`;
  });
  if (bars.length) drawn('path', { class: 'bars', d: bars.join('') }, group);
  if (isDense) return;
  drawn('path', { class: 'marks', d: at.map(p => `M${p}h0`).join('') }, group);
  const hollow = at.filter((_, k) => isVoid(line) || line.v?.includes(points[k]));
  if (hollow.length) drawn('path', { class: 'marks hollow', d: hollow.map(p => `M${p}h0`).join('') }, group);
};
const pictures = new WeakMap();
const draw = (figure, size) => {
  const { plot, holder } = pictures.get(figure);
  const frame = frameOf(plot, size);
  const axes = axesOf(plot, frame);
  const attributes = { viewBox: `0 0 ${frame.width} ${frame.height}`, role: 'img', tabindex: 0, 'aria-label': plot.t };
  const svg = drawn('svg', attributes);
  for (const [from, to] of plot.shaded) {
    const [left, right] = [place(axes.x, from), place(axes.x, to)];
    drawn('rect', { class: 'shade', x: left, y: frame.top, width: right - left, height: frame.bottom - frame.top }, svg);
  }
  drawGrid(svg, plot, frame, axes);
  // The first run lies on top.
  [...plot.lines.keys()].reverse().forEach(n => drawLine(svg, plot, axes, plot.lines[n], n));
  drawn('line', { class: 'cursor', hidden: '', y1: frame.top, y2: frame.bottom }, svg);
  holder.replaceChildren(svg);
  pictures.set(figure, { plot, holder, size, axes });
  for (const button of all('.legend button', figure)) mark(figure, button);
  listen(figure, svg);
};
const sizeOf = figure => figure.clientWidth && figure.clientWidth < 520 ? NARROW : WIDE;
const redraw = (figure, size = sizeOf(figure)) => {
  if (pictures.get(figure)?.size !== size) draw(figure, size);
};
// Whether a line is shown is what its entry in the legend says.
const mark = (figure, button) => {
  const line = figure.querySelector(`[data-line="${button.dataset.entry}"]`);
  line.toggleAttribute('hidden', button.getAttribute('aria-pressed') !== 'true');
};
// Caption, picture, legend, and the table when it is first opened.
const present = (figure, plot, size = sizeOf(figure)) => {
  figure.replaceChildren();
  const caption = element('figcaption', null, figure);
  element('b', plot.t, caption);
  const said = [plot.note, plot.shaded.length ? 'shaded: load above 1' : ''].filter(Boolean).join('; ');
  element('span', ` ${said}`, caption);
  pictures.set(figure, { plot, holder: element('div', null, figure) });
  const legend = element('ul', null, figure, { class: 'legend' });
  plot.lines.forEach((line, n) => {
    const run = line.look.startsWith('oracle') ? '' : slug(line.name);
    const button = element('button', null, element('li', null, legend),
      { type: 'button', 'aria-pressed': true, 'data-entry': n, 'data-run': run });
    const swatch = drawn('svg', { viewBox: '0 0 26 10', 'aria-hidden': true }, button);
    drawn('path', { d: 'M1 5h24' }, drawn('g', { class: `line ${line.look}` }, swatch));
    button.append(line.name + (isVoid(line) ? ' (void)' : ''));
    button.addEventListener('click', () => {
      button.setAttribute('aria-pressed', String(button.getAttribute('aria-pressed') !== 'true'));
      mark(figure, button);
    });
  });
  draw(figure, size);
  const details = element('details', null, figure, { class: 'table' });
  element('summary', 'Table', details);
  details.addEventListener('toggle', () => details.open && tabulate(details, plot));
};
const tabulate = (details, plot) => {
  if (details.querySelector('table')) return;
  const table = element('table', null, element('div', null, details, { class: 'scroll', tabindex: 0 }));
  const head = element('tr', null, element('thead', null, table));
  const names = plot.lines.map(line => line.name + (isVoid(line) ? ' (void)' : ''));
  [plot.x.t, ...names].forEach(name => element('th', name, head, { scope: 'col' }));
  const body = element('tbody', null, table);
  plot.xs.forEach((_, at) => {
    if (plot.lines.every(line => line.y[at] === null)) return;
    const row = element('tr', null, body);
    element('td', writtenX(plot, at), row, { class: 'value' });
    plot.lines.forEach(line => element('td', writtenY(plot, line, at), row, { class: 'value' }));
  });
};

// ---- Values under the pointer, or by the arrow keys of a plot that has the focus.

const tip = document.getElementById('tip');
const show = (figure, svg, at, x, y) => {
  const { plot, axes } = pictures.get(figure);
  svg.dataset.at = at;
  const cursor = svg.querySelector('.cursor');
  const px = place(axes.x, plot.xs[at]);
  cursor.setAttribute('x1', px);
  cursor.setAttribute('x2', px);
  cursor.removeAttribute('hidden');
  tip.replaceChildren();
  element('b', `${plot.x.t}: ${writtenX(plot, at)}`, tip);
  plot.lines.forEach((line, n) => {
    if (line.y[at] === null || svg.querySelector(`[data-line="${n}"]`).hasAttribute('hidden')) return;
    const row = element('div', null, tip);
    const name = element('span', null, row, { class: line.look });
    element('i', null, name);
    name.append(line.name + (isVoid(line) ? ' (void)' : ''));
    element('span', writtenY(plot, line, at), row);
  });
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 4))}px`;
};
const nearest = ({ plot, axes }, px) => {
  const distance = at => Math.abs(place(axes.x, plot.xs[at]) - px);
  const places = [...plot.xs.keys()].filter(at => plot.lines.some(line => line.y[at] !== null));
  return places.reduce((best, at) => distance(at) < distance(best) ? at : best, places[0]);
};
const listen = (figure, svg) => {
  const hide = () => {
    tip.hidden = true;
    svg.querySelector('.cursor').setAttribute('hidden', '');
  };
  const { plot, axes } = pictures.get(figure);
  const scale = box => svg.viewBox.baseVal.width / box.width;
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    show(figure, svg, nearest({ plot, axes }, (event.clientX - box.left) * scale(box)), event.clientX, event.clientY);
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const before = Number(svg.dataset.at ?? (step > 0 ? -1 : plot.xs.length));
    const at = Math.min(Math.max(before + step, 0), plot.xs.length - 1);
    const box = svg.getBoundingClientRect();
    show(figure, svg, at, box.left + place(axes.x, plot.xs[at]) / scale(box), box.top);
  });
};
