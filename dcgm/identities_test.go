package dcgm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentities(t *testing.T) {
	want := []Identity{{"GPU-b", 0}, {"GPU-a", 1}}
	line, err := EncodeIdentities(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseIdentities(line)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities",`
	for _, tt := range []struct{ name, line, want string }{
		{"no JSON", "libdcgm: warning", "DCGM ids: invalid character"},
		{"another kind", `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","gpus":[]}`, `kind "NodeReport": want "quoin.dev/v1alpha1", "DCGMIdentities"`},
		{"two documents", head + `"gpus":[]}{}`, "after top-level value"},
		{"no UUID", head + `"gpus":[{"id":0}]}`, `gpus[0].uuid "": want GPU-…`},
		{"negative", head + `"gpus":[{"uuid":"GPU-a","id":-1}]}`, "gpus[0].id -1: want 0 to 65536"},
		{"an id twice", head + `"gpus":[{"uuid":"GPU-a","id":1},{"uuid":"GPU-b","id":1}]}`, "gpus[1]: GPU-b, id 1: a GPU before has one of them"},
		{"a GPU twice", head + `"gpus":[{"uuid":"GPU-a","id":1},{"uuid":"GPU-a","id":2}]}`, "gpus[1]: GPU-a, id 2: a GPU before has one of them"},
	} {
		if got, err := ParseIdentities([]byte(tt.line)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if line, err := EncodeIdentities([]Identity{{UUID: "MIG-a"}}); err == nil {
		t.Errorf("a MIG instance was taken for a GPU: %s", line)
	}
}

// FuzzParseIdentities checks that what is read prints as what reads the same.
func FuzzParseIdentities(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities","gpus":[{"uuid":"GPU-a","id":1}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		once, err := ParseIdentities(line)
		if err != nil {
			return
		}
		text, err := EncodeIdentities(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := ParseIdentities(text); err != nil || !cmp.Equal(once, twice) {
			t.Fatalf("%v prints %s, read %v, %v", once, text, twice, err)
		}
	})
}
