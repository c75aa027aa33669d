// Package reports holds the tests of everything that is written about a run; its packages
// write it. A package imports only those before it in this list:
//
//	words    numbers, marks and names, for every form of report
//	chart    charts as SVG, in the colours of the page
//	answer   what a run has shown: designs ranked, proofs, what may be trusted
//	export   text, Markdown, JUnit, OpenMetrics, annotations
//	page     the HTML pages
//	compare  runs against runs, in every form
//
// Reports read run directories only. The same data gives the same bytes.
package reports
