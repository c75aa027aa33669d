// Package lint holds no code, only tests: the rules of this repository that a
// compiler does not know, checked by parsing every file in this process. (A
// test that asks the go tool instead is cached and passes over violations.)
//
// imports_test.go says who may import whom, tidy_test.go what a tidy file
// looks like, documents_test.go which tests a document may name. A finding ends
// with how to fix it. An exception is a comment on the line or the one above it,
//
//	// tidy: <rule>: <reason>
//
// and the reason must be there.
package lint
