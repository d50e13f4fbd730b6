// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import "strings"

// closest returns the candidate that name was probably meant to be, or "" when
// none is near. Case doesn't count as a difference.
func closest(name string, candidates []string) string {
	best, bestDistance := "", 0
	for _, c := range candidates {
		limit := max(1, max(len(c), len(name))/3)
		if len(c)-len(name) > limit || len(name)-len(c) > limit {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the edits between a and b: a byte added, dropped or changed,
// or two neighbors exchanged.
func distance(a, b string) int {
	// Rows of the edit matrix: two before, one before, and the current one.
	older, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
		older, prev, cur = prev, cur, older
	}
	return prev[len(b)]
}
