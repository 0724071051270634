package imex

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestComplete(t *testing.T) {
	got, err := Config{}.Complete()
	want := Config{Join: "auto", Namespace: "quoin-node", Name: "quoin", ClaimTemplate: "quoin-imex-channel", AllocationMode: "Single"}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("error %v, defaults (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	set := Config{Join: "slurmd", Namespace: "slurm", Name: "rack.one", ClaimTemplate: "channel-of-0", AllocationMode: "All", HostChannels: true}
	if got, err := set.Complete(); err != nil || cmp.Diff(set, got) != "" {
		t.Errorf("error %v, of all set (-want +got):\n%s", err, cmp.Diff(set, got))
	}
}

// TestClaims says for each way of joining whether pods may claim channels.
func TestClaims(t *testing.T) {
	for join, want := range map[string]bool{JoinAuto: true, JoinHolder: true, JoinSlurmd: true, JoinHost: false, JoinNone: false} {
		if c := (Config{Join: join}); c.Claims() != want {
			t.Errorf("join %s: %t, want %t", join, c.Claims(), want)
		}
	}
}

func TestCompleteRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"join", Config{Join: "all"}, `imex.join: "all": want auto, holder, slurmd, host or none`},
		{"worker pods elsewhere", Config{Join: "slurmd"}, `imex.namespace: "quoin-node": want the namespace of the worker pods`},
		{"a dot in a namespace", Config{Namespace: "a.b"}, `imex.namespace: "a.b": want up to 63 lower-case letters, digits and dashes, no dash at an end`},
		{"a long namespace", Config{Namespace: strings.Repeat("a", 64)}, "want up to 63"},
		{"a dash at the end", Config{Namespace: "a-"}, "no dash at an end"},
		{"a dash at the start", Config{Namespace: "-a"}, "no dash at an end"},
		{"capitals", Config{Name: "Rack"}, `imex.name: "Rack": want up to 253 lower-case letters`},
		{"an empty part", Config{ClaimTemplate: "a..b"}, `imex.claimTemplate: "a..b": want up to 253`},
		{"a long name", Config{ClaimTemplate: strings.Repeat("abcdefg.", 32) + "a"}, "imex.claimTemplate"},
		{"allocationMode", Config{AllocationMode: "all"}, `imex.allocationMode: "all": want Single or All`},
		{"two at once", Config{Join: "x", AllocationMode: "y"}, "imex.join: \"x\": want auto, holder, slurmd, host or none\nimex.allocationMode: \"y\": want Single or All"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.config.Complete()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
