//go:build browser

package browsertest

import "testing"

// crowded finds what does not fit a page as it is shown now: elements that stand out at
// its right, words broken within, and texts of one chart that lie over each other. What
// scrolls by itself may be as wide as it likes; digests and JSON break where they must.
const crowded = `(() => {
	const found = [], width = document.documentElement.clientWidth;
	const name = e => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') +
		(e.getAttribute('class') ? '.' + e.getAttribute('class').split(/\s+/).join('.') : '');
	const seen = e => e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}) &&
		!e.closest('.sr, .skip, .cards thead');
	const scrolled = e => {
		for (let p = e.parentElement; p; p = p.parentElement)
			if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return true;
		return false;
	};
	if (document.documentElement.scrollWidth > width)
		for (const e of document.body.querySelectorAll('*'))
			if (e.getBoundingClientRect().right > width + 1 && seen(e) && !scrolled(e))
				found.push('stands out: ' + name(e));
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = texts.nextNode(); n; n = texts.nextNode()) {
		const e = n.parentElement;
		if (e.closest('svg, script, style, pre') || n.data.includes('{"') || !seen(e)) continue;
		for (const word of n.data.matchAll(/[\p{L}\p{N}]{2,}/gu)) {
			if (word[0].length > 24) continue;
			const range = document.createRange();
			range.setStart(n, word.index);
			range.setEnd(n, word.index + word[0].length);
			const lines = [...range.getClientRects()].filter(r => r.width > 0).map(r => r.top);
			if (lines.length && Math.max(...lines) - Math.min(...lines) > 4)
				found.push('broken within: ' + word[0] + ' of "' + n.data.trim().slice(0, 60) + '" in ' + name(e));
		}
	}
	for (const svg of document.querySelectorAll('svg')) {
		if (!seen(svg)) continue;
		const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
		boxes.forEach(([a, r], i) => boxes.slice(i + 1).forEach(([b, s]) => {
			const across = Math.min(r.right, s.right) - Math.max(r.left, s.left);
			const down = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
			if (across > 1 && down > 0.3 * Math.min(r.height, s.height))
				found.push('over each other in ' + (svg.id || svg.closest('[id]')?.id) + ': "' + a + '" and "' + b + '"');
		}));
	}
	return [...new Set(found)];
})()`

// Crowded says what does not fit a page as it is shown now, a line each: elements that
// stand out at its right, words broken within, texts of a chart over each other.
func Crowded(t testing.TB, tb *Tab) []string {
	t.Helper()
	return Eval[[]string](t, tb, crowded)
}
