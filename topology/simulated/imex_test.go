package simulated

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestIMEX(t *testing.T) {
	c := parseOf(t, `groups:
- node: a
  nvlink: rack
  gpus: {count: 1, product: G}
  imex: {major: 235, channels: 2048, daemon: READY, domain: UP}
- node: b
timeline:
- {at: "10:00", say: the daemon waits, do: [{node: a, imex: {major: 235, daemon: WAITING_FOR_PEERS, hostService: true}}]}
- {at: "10:01", say: a driver without IMEX, do: [{node: a, imex: {}}]}
- {at: "10:02", say: all is as it was, do: [{node: a, clear: true}]}
`)
	well := &topology.IMEX{ChannelMajor: new(235), Channels: 2048, DaemonState: "READY", DomainState: "UP"}
	wants := []*topology.IMEX{well, {ChannelMajor: new(235), DaemonState: "WAITING_FOR_PEERS", HostService: true}, {}, well}
	for i, want := range wants {
		if i > 0 {
			c.Apply(c.Steps[i-1])
		}
		if diff := cmp.Diff(want, machineOf(t, c, "a").Report.IMEX); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
	}
	if got := machineOf(t, c, "b").Report.IMEX; got != nil {
		t.Errorf("b says %+v, want nothing", got)
	}
}
