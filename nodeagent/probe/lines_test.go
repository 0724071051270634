package probe

import (
	"bytes"
	"testing"
)

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\n\nbb\r\nccc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 16
		var got [][]byte
		readLines(bytes.NewReader(data), limit, func(l []byte) { got = append(got, bytes.Clone(l)) })
		for _, l := range got {
			if len(l) > limit || bytes.ContainsRune(l, '\n') {
				t.Fatalf("line %q", l)
			}
		}
		if want := bytes.Count(data, []byte("\n")); len(got) < want || len(got) > want+1 {
			t.Fatalf("%d lines of %d", len(got), want)
		}
	})
}
