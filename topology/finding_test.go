package topology

import "testing"

func TestFindingSaysAll(t *testing.T) {
	for name, tt := range map[string]struct {
		f    Finding
		want string
	}{
		"line": {Finding{Subject: Subject{File: "topology.conf", Line: 3}, Severity: Fatal, Reason: "BlockSizes", Message: "block b has 3 nodes", Remedy: "add one"},
			"topology.conf:3: fatal: block b has 3 nodes (BlockSizes); add one"},
		"node":  {Finding{Subject: Subject{Node: "n1"}, Reason: "NoDomain", Message: "no clique"}, "n1: NoDomain: no clique"},
		"thing": {Finding{Subject: Subject{Thing: "block b1"}, Reason: "SlurmDiffers", Message: "m"}, "block b1: SlurmDiffers: m"},
		"none":  {Finding{Reason: "FewGroups", Message: "m"}, "FewGroups: m"},
	} {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("%s: String() = %q, want %q", name, got, tt.want)
		}
	}
}

// TestSeverityText reads the words that it writes, and no other.
func TestSeverityText(t *testing.T) {
	for _, want := range []Severity{Warning, Fatal, Unknown, OK} {
		text, err := want.MarshalText()
		got := Severity(200)
		if err != nil || got.UnmarshalText(text) != nil || got != want {
			t.Errorf("%s is read as %d: want %d", text, got, want)
		}
	}
	if err := new(Severity).UnmarshalText([]byte("bad")); err == nil {
		t.Error("the word bad is read")
	}
}
