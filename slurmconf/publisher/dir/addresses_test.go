package dir

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestResolve(t *testing.T) {
	known := map[string]string{"n1": "::1 10.0.0.3 10.0.0.2 fd00::1", "n2": "::ffff:10.0.0.9", "n3": "fe80::1 fd00::3", "own": "127.0.1.1 ::1"}
	lookup := func(_ context.Context, _, host string) (out []netip.Addr, err error) {
		if known[host] == "" {
			return nil, errors.New("no such host")
		}
		for a := range strings.FieldsSeq(known[host]) {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	got, err := resolve(t.Context(), []string{"n1", "n2", "n3"}, lookup)
	want := map[string]netip.Addr{"n1": netip.MustParseAddr("10.0.0.2"), "n2": netip.MustParseAddr("10.0.0.9"), "n3": netip.MustParseAddr("fd00::3")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for node, want := range map[string]string{"own": "address of node own: its name resolves to no address that others reach", "gone": "address of node gone: no such host: its name must resolve here"} {
		if _, err := resolve(t.Context(), []string{"n1", node}, lookup); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", node, err, want)
		}
	}
}
