package telemetry

import (
	"cmp"
	"strconv"
	"strings"
)

// naturally compares names in which numbers count as numbers: "p-2" before "p-10".
func naturally(a, b string) int {
	cut := func(s string) (head string, n int) {
		head = strings.TrimRight(s, "0123456789")
		n, _ = strconv.Atoi(s[len(head):]) // 0 where there is none
		return head, n
	}
	headA, nA := cut(a)
	headB, nB := cut(b)
	return cmp.Or(cmp.Compare(headA, headB), cmp.Compare(nA, nB), cmp.Compare(a, b))
}
