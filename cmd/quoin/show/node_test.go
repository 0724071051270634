package show

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestPlatform prints where a machine sits, and a dash for what the driver does not say.
func TestPlatform(t *testing.T) {
	for want, p := range map[string]topology.Platform{
		"Platform  chassis 17, slot 3, tray 2, host 1\n":   {ChassisSerial: "17", Slot: 3, Tray: 2, HostID: 1},
		"Platform  rack GUID ab, slot 0, tray 0, host 1\n": {RackGUID: "ab", HostID: 1},
		"Platform  chassis -, slot 0, tray 0, host 1\n":    {HostID: 1}, // as an H200 answers
	} {
		var b strings.Builder
		Node(&b, &topology.Node{Name: "n", Platform: &p}, nil)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%+v: want %q in\n%s", p, want, b.String())
		}
	}
}
