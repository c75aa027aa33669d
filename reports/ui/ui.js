(function () {
'use strict';
var main = document.getElementById('main');
if (!main || !window.EventSource) return;

// Follow an address for as long as somebody looks: a browser has few connections to one
// server, and a page that nobody sees needs none.
function follow(address, hear) {
  var source = null, over = false;
  function close() { if (source) source.close(); source = null; }
  function show() {
    if (over || document.hidden) { close(); return; }
    if (source) return;
    source = new EventSource(address());
    Object.keys(hear).forEach(function (kind) {
      source.addEventListener(kind, function (e) { if (hear[kind](e)) { over = true; close(); } });
    });
  }
  document.addEventListener('visibilitychange', show);
  addEventListener('pageshow', show);
  addEventListener('pagehide', close);
  show();
}

// A run: the parts that have changed come as JSON, each by its id.
if (main.dataset.run) {
  follow(function () { return main.dataset.run; }, {
    parts: function (e) {
      var parts = JSON.parse(e.data);
      if (!document.querySelector('.lanes') && Object.keys(parts).some(function (id) { return id.indexOf('lane-') === 0; })) { location.reload(); return true; }
      Object.keys(parts).forEach(function (id) {
        var part = document.getElementById(id);
        if (!part) return;
        var focused = part.contains(document.activeElement);
        part.innerHTML = parts[id];
        var next = focused && part.querySelector('a, button');
        if (next) next.focus();
      });
    },
    problem: function (e) { document.getElementById('clock').textContent = e.data; return true; },
    over: function () { return true; }
  });
}

// The list of runs: it is not as it was shown. Where the focus is in it, it stays until
// the focus has left.
if (main.dataset.list) {
  var fetchList = function () {
    fetch(location.href).then(function (r) { return r.ok ? r.text() : Promise.reject(r.status); }).then(function (text) {
      var page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.getElementById('runs'), runs = document.getElementById('runs');
      if (!fresh) return;
      if (runs.contains(document.activeElement)) {
        runs.addEventListener('focusout', function () { setTimeout(fetchList); }, { once: true });
        return;
      }
      runs.replaceWith(document.importNode(fresh, true));
      main.dataset.list = page.getElementById('main').dataset.list;
    }).catch(function () { /* the next change tries again */ });
  };
  follow(function () { return main.dataset.list; }, { changed: fetchList });
}
})();
