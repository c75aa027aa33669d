(function () {
'use strict';
var main = document.getElementById('main');
if (!main || !window.EventSource) return;

// A run: the parts that have changed come as JSON, each by its id.
if (main.dataset.run) {
  var source = new EventSource(main.dataset.run);
  source.addEventListener('parts', function (e) {
    var parts = JSON.parse(e.data);
    if (!document.querySelector('.lanes') && Object.keys(parts).some(function (id) { return id.indexOf('lane-') === 0; })) { location.reload(); return; }
    Object.keys(parts).forEach(function (id) {
      var part = document.getElementById(id);
      if (!part) return;
      var focused = part.contains(document.activeElement);
      part.innerHTML = parts[id];
      var next = focused && part.querySelector('a, button');
      if (next) next.focus();
    });
  });
  source.addEventListener('problem', function (e) { source.close(); var clock = document.getElementById('clock'); clock.textContent = e.data; });
  source.addEventListener('over', function () { source.close(); });
}

// The list of runs: it has changed.
if (main.dataset.list) {
  var list = new EventSource(main.dataset.list);
  list.addEventListener('changed', function () {
    fetch(location.href).then(function (r) { return r.ok ? r.text() : Promise.reject(r.status); }).then(function (text) {
      var fresh = new DOMParser().parseFromString(text, 'text/html').getElementById('runs'), runs = document.getElementById('runs');
      if (fresh && !runs.contains(document.activeElement)) runs.replaceWith(document.importNode(fresh, true));
    }).catch(function () { /* the next change tries again */ });
  });
}
addEventListener('pagehide', function () { [source, list].forEach(function (s) { if (s) s.close(); }); });
})();
