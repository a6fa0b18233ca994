'use strict';
// The page is whole without this. It sorts tables, shows values beside the pointer, puts series on and off, and filters lists.
const all = (where, what) => [...where.querySelectorAll(what)];
const make = (name, kind, text) => {
  const one = document.createElement(name);
  one.className = kind;
  one.textContent = text;
  return one;
};

// Tables: a button in each head; numbers by their value, words by the alphabet.
const key = cell => cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
const order = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b
  : String(a).localeCompare(String(b), undefined, { numeric: true });
for (const table of all(document, 'table.sortable')) {
  const heads = all(table, 'thead th');
  heads.forEach((head, column) => {
    const button = make('button', 'sort', head.textContent);
    button.title = 'Sort';
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = all(table.tBodies[0], 'tr').map((row, index) => ({ row, index, key: key(row.cells[column]) }));
      rows.sort((a, b) => (up ? 1 : -1) * order(a.key, b.key) || a.index - b.index);
      table.tBodies[0].append(...rows.map(one => one.row));
    });
  });
}

// Lists: a field that leaves the rows which hold all words.
for (const table of all(document, 'table.searchable')) {
  const field = make('input', 'search', '');
  field.type = 'search';
  field.placeholder = 'Search';
  field.setAttribute('aria-label', 'Search');
  const count = make('output', 'count', '');
  const rows = all(table.tBodies[0], 'tr').map(row => ({ row, text: row.textContent.toLowerCase() }));
  field.addEventListener('input', () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every(word => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? shown + ' of ' + rows.length : '';
  });
  const line = make('p', 'searchline', '');
  line.append(field, count);
  (table.closest('.scroll') || table).before(line);
}

// Figures: the names in a legend put their series on and off, in both drawings of a figure. The first text of a series is its name.
for (const drawing of all(document, '.drawing')) {
  const names = new Map();
  for (const svg of all(drawing, 'svg.fig')) {
    const known = new Set();
    for (const text of all(svg, 'g[data-s] text')) {
      const series = text.parentNode.dataset.s;
      if (!known.has(series)) names.set(text, series);
      known.add(series);
    }
  }
  if (new Set(names.values()).size < 2) continue;
  for (const [name, series] of names) {
    const toggle = () => {
      const on = name.getAttribute('aria-checked') !== 'true';
      for (const part of all(drawing, 'g[data-s="' + series + '"] > *')) {
        if (names.has(part)) part.setAttribute('aria-checked', on);
        else part.classList.toggle('off', !on);
      }
    };
    // Children of an image are not reachable by keyboard.
    name.ownerSVGElement.setAttribute('role', 'group');
    name.setAttribute('role', 'checkbox');
    name.setAttribute('tabindex', 0);
    name.setAttribute('aria-checked', true);
    name.addEventListener('click', toggle);
    name.addEventListener('keydown', event => {
      if (event.key !== ' ' && event.key !== 'Enter') return;
      event.preventDefault();
      toggle();
    });
  }
}

// Values: the nearest mark's words beside the pointer, instead of the browser's slow ones.
const tip = make('div', 'tip', '');
tip.hidden = true;
document.body.append(tip);
const NEAR = 28;
for (const svg of all(document, 'svg.fig')) {
  const marks = all(svg, 'path > title').map(title => {
    const mark = { path: title.parentNode, words: title.textContent };
    title.remove();
    return mark;
  });
  const distance = (mark, x, y) => {
    if (mark.path.closest('.off')) return Infinity;
    const box = mark.path.getBoundingClientRect();
    return Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  };
  const hide = () => { tip.hidden = true; };
  svg.addEventListener('pointermove', event => {
    let best = null;
    let least = NEAR;
    for (const mark of marks) {
      const far = distance(mark, event.clientX, event.clientY);
      if (far < least) [best, least] = [mark, far];
    }
    if (!best) return hide();
    tip.textContent = best.words;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, room)) + 'px';
    tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 12) + 'px';
  });
  svg.addEventListener('pointerleave', hide);
}
