(function () {
'use strict';
var root = document.documentElement, doc = document;
function all(selector, from) { return Array.prototype.slice.call((from || doc).querySelectorAll(selector)); }

// Theme: the button offers the other one; the choice is kept where the browser lets us.
var button = doc.getElementById('theme'), key = 'stampede-theme';
function dark() {
  var t = root.getAttribute('data-theme');
  return t ? t === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}
function setTheme(t) {
  if (t) root.setAttribute('data-theme', t);
  button.textContent = dark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', 'Switch to the ' + (dark() ? 'light' : 'dark') + ' theme');
}
var kept = null;
try { kept = localStorage.getItem(key); } catch (e) { /* not allowed for files: start from the system's */ }
setTheme(kept === 'dark' || kept === 'light' ? kept : null);
button.hidden = false;
button.onclick = function () {
  var t = dark() ? 'light' : 'dark';
  setTheme(t);
  try { localStorage.setItem(key, t); } catch (e) { /* as above */ }
};

// On a page over many runs: the scenarios whose newest run has one verdict.
var v = doc.getElementById('only');
if (v) {
  v.closest('.choice').hidden = false;
  v.onchange = function () {
    all('[data-verdict]').forEach(function (x) { x.hidden = v.value && v.value !== x.dataset.verdict; });
  };
}

// Copy buttons.
all('[data-copy]').forEach(function (b) {
  b.hidden = false;
  b.addEventListener('click', function () {
    var source = doc.getElementById(b.getAttribute('data-copy')), range = doc.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    var done = function () { b.textContent = 'Copied'; setTimeout(function () { b.textContent = 'Copy'; }, 2000); };
    if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(done, function () {});
    else if (doc.execCommand('copy')) done();
  });
});

// On a phone what is for reference is folded.
if (matchMedia('(max-width: 640px)').matches) all('details.desk').forEach(function (d) { d.open = false; });

// A link into a closed part opens it. #v=A,C shows only these variants in the charts.
var boxes = all('.toggles input');
function follow() {
  var hash = '';
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch (e) { /* not one of ours */ }
  if (hash.slice(0, 2) === 'v=') {
    var shown = hash.slice(2).split(',');
    boxes.forEach(function (b) { b.checked = shown.indexOf(b.getAttribute('data-letter')) >= 0; });
    return;
  }
  var target = hash && doc.getElementById(hash), opened = false;
  for (var e = target; e; e = e.parentElement)
    if (e.tagName === 'DETAILS' && !e.open) { e.open = true; opened = true; }
  if (opened) target.scrollIntoView();
}
addEventListener('hashchange', follow);
follow();
boxes.forEach(function (b) {
  b.addEventListener('change', function () {
    var on = boxes.filter(function (x) { return x.checked; });
    var names = on.map(function (x) { return x.getAttribute('data-letter'); });
    try { history.replaceState(null, '', on.length === boxes.length ? '#latency' : '#v=' + names); } catch (e) { /* sandboxed */ }
  });
});

// Charts: a cursor, by pointer or arrow keys, reads the values from the chart's table. Charts in one section move together.
all('.plot[data-dx]').forEach(function (plot) {
  var figure = plot.parentElement, svg = plot.querySelector('svg'), table = figure.querySelector('.data table');
  if (!table) return;
  var rows = all('tbody tr', table), heads = all('thead th', table).map(function (h) { return h.textContent; });
  var x0 = +plot.dataset.x0, dx = +plot.dataset.dx, at = -1;
  var from = +plot.dataset.from, step = +plot.dataset.step || 1; // what a row is of, as x
  // Series go by their designs' letters, if all of them have one.
  var letter = /^[A-Z]{1,2}(?= )/;
  if (heads.slice(1).every(function (h) { return letter.test(h); }))
    heads = heads.map(function (h) { return (letter.exec(h) || [h])[0]; });
  var lineMark = doc.createElementNS('http://www.w3.org/2000/svg', 'line');
  lineMark.setAttribute('class', 'cursor');
  lineMark.setAttribute('y1', plot.dataset.y0);
  lineMark.setAttribute('y2', plot.dataset.y1);
  lineMark.setAttribute('visibility', 'hidden');
  svg.appendChild(lineMark);
  var out = doc.createElement('output');
  out.className = 'readout';
  out.setAttribute('aria-live', 'off');
  plot.after(out);
  plot.tabIndex = 0;
  plot.setAttribute('role', 'group');
  plot.setAttribute('aria-label', 'Chart: ' + svg.querySelector('title').textContent + '; arrow keys read its values');
  function show(i) {
    at = i;
    lineMark.setAttribute('visibility', i < 0 ? 'hidden' : 'visible');
    if (i < 0) { out.textContent = ''; return; }
    lineMark.setAttribute('x1', x0 + i * dx);
    lineMark.setAttribute('x2', x0 + i * dx);
    out.textContent = all('th,td', rows[i]).map(function (c, n) {
      return n ? heads[n] + ' ' + c.textContent : c.textContent + ':';
    }).join('  ');
  }
  // Where another chart's cursor stands: rows of charts may differ in width and in number.
  plot.show = function (x) {
    var i = Math.round((x - from) / step);
    out.setAttribute('aria-live', 'off');
    show(i < rows.length ? Math.max(i, -1) : -1);
  };
  function move(i, live) {
    i = Math.max(0, Math.min(rows.length - 1, i));
    out.setAttribute('aria-live', live ? 'polite' : 'off');
    all('.plot', figure.parentElement).forEach(function (p) { if (p !== plot && p.show) p.show(from + i * step); });
    show(i);
  }
  plot.addEventListener('pointermove', function (e) {
    var box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    move(Math.round(((e.clientX - box.left) * scale - x0) / (dx || 1)), false);
  });
  plot.addEventListener('keydown', function (e) {
    var step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (step) move(at + step, true);
    else if (e.key === 'Home') move(0, true);
    else if (e.key === 'End') move(rows.length - 1, true);
    else if (e.key === 'Escape') all('.plot', figure.parentElement).forEach(function (p) { if (p.show) p.show(NaN); });
    else return;
    e.preventDefault();
  });
});
})();
