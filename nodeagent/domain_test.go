package nodeagent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

// domainLine is a line of the probe in a boot. what is the clique of each GPU, or
// how far the GPU is: "-" in progress, "!" failed, "?" unread, "0" without a
// cluster, "x" not supported. With "~" after it it was not read, but is as before.
func domainLine(t testing.TB, boot, what string) string {
	t.Helper()
	n := &topology.Node{Name: "n1", BootID: boot}
	what, before := strings.CutSuffix(what, "~")
	if before {
		n.Problems = []topology.Finding{{Reason: topology.ReasonUnsettled, Message: "shown as before"}}
	}
	for i, w := range strings.Split(what, "") {
		f := topology.Fabric{ClusterUUID: topology.UUID{15: 1}, State: topology.FabricCompleted}
		switch w {
		case "-":
			f = topology.Fabric{State: topology.FabricInProgress}
		case "!":
			f.Status = "ERROR_UNKNOWN"
		case "?":
			f = topology.Fabric{}
		case "0":
			f.ClusterUUID = topology.UUID{}
		case "x":
			f = topology.Fabric{State: topology.FabricNotSupported}
		default:
			f.CliqueID = uint32(w[0])
		}
		n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Fabric: f})
	}
	line, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// confirmer is an agent, or one after the other, over one store.
type confirmer struct {
	t     testing.TB
	store *memory
	agent *Agent
	stop  func()
	says  fed
	probe *probe.Decoder
}

func newConfirmer(t testing.TB, stored string) *confirmer {
	c := &confirmer{t: t, store: &memory{}}
	if stored != "" {
		c.store.report = []byte(stored)
	}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

func (c *confirmer) start() {
	c.says, c.probe = make(fed), &probe.Decoder{Node: "n1"}
	c.agent = New(Config{Node: "n1", Probe: c.says}, c.store, nil, NewMetrics(prometheus.NewRegistry()), discard())
	c.stop = start(c.t, c.agent)
}

// step is one thing that happens: "BOOT CLIQUES" is a line, "" an empty one,
// "garbage" a line of no use, "probe" its end, "agent" that of the agent. It waits until
// what there is to store is stored.
func (c *confirmer) step(what string) {
	c.t.Helper()
	switch boot, cliques, ok := strings.Cut(what, " "); {
	case ok:
		c.hear(domainLine(c.t, boot, cliques))
	case what == "probe":
		c.probe = &probe.Decoder{Node: "n1"}
		c.says <- probe.Event{Kind: probe.Silent}
	case what == "agent":
		c.stop()
		c.start()
	default:
		c.hear(what)
	}
	synctest.Wait()
}

func (c *confirmer) hear(line string) {
	e, err := c.probe.Decode([]byte(line))
	if err != nil {
		e = probe.Event{Kind: probe.Refused, Err: err}
	}
	c.says <- e
}

// stored returns the clique that the stored report has confirmed: '0' if the report confirmed
// that there is none, 0 if it confirmed nothing. changed says that it was another clique earlier in
// this boot, and lost that NVML names none now.
func (c *confirmer) stored() (clique rune, changed, lost bool) {
	c.t.Helper()
	n, err := topology.ParseReport("stored", c.store.report)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range n.Problems {
		lost = lost || p.Reason == reasonDomainChanged
	}
	if n.Domain.None {
		return '0', n.DomainChanged, lost
	}
	return rune(n.Domain.Clique.ID), n.DomainChanged, lost
}

func TestDomain(t *testing.T) {
	none := rune(0)
	tests := []struct {
		name, stored, steps string // divided by ", "
		want                rune
		says                string // what the report says of it beside the clique: changed, lost
		writes              int
	}{
		{"one reading", "", "b AA", none, "", 1},
		{"two", "", "b AA, ", 'A', "", 2},
		{"two whole lines", "", "b AA, b AA", 'A', "", 2},
		{"many", "", "b AA, , , , b AA, , ", 'A', "", 2},
		{"in progress", "", "b --, , , ", none, "", 1},
		{"one GPU in progress", "", "b A-, , , ", none, "", 1},
		{"one GPU failed", "", "b A!, , ", none, "", 1},
		{"one GPU unread", "", "b A?, , ", none, "", 1},
		{"one GPU without a cluster", "", "b A0, , ", none, "", 1},
		{"no cluster, read once", "", "b 00", none, "", 1},
		{"no cluster, read twice", "", "b 00, , ", '0', "", 2},
		{"not supported, read twice", "", "b xx, b xx, ", '0', "", 2},
		{"one not supported, one without a cluster", "", "b x0, , ", '0', "", 2},
		{"one not supported, one unread", "", "b x?, , ", none, "", 1},
		{"no cluster, interrupted", "", "b 00, b 0-, b 00", none, "", 3},
		{"no cluster, and a probe between", "", "b 00, probe, b 00", none, "", 1},
		{"no cluster, and an agent in another boot", "", "b 00, , agent, c 00", none, "", 3},
		{"no cluster at first, then one", "", "b 00, , b AA", '0', "", 3},
		{"no cluster at first, then one twice", "", "b 00, , b AA, ", 'A', "", 4},
		{"the same with an agent between", "", "b 00, , agent, b AA, , agent, b AA", 'A', "", 4},
		{"a cluster, then none in the same boot", "", "b AA, , b 00, , ", 'A', "lost", 3},
		{"a cluster, then an agent and none", "", "b AA, , agent, b xx, , ", 'A', "lost", 3},
		{"a cluster, then none after a reboot", "", "b AA, , b 00, , c 00, ", none, "", 4},
		{"the same, with an agent in between", "", "b AA, , agent, c 00, , agent, c 00, ", none, "", 3},
		{"a cluster, then none after two reboots", "", "b AA, , agent, c --, , agent, d xx, ", none, "", 4},
		{"a cluster, none after a reboot, then the cluster", "", "b AA, , c 00, , c AA, ", 'A', "", 5},
		{"a cluster, then none, and an agent of before", domainReport(t, "a", 'C'), "b 00, , ", none, "", 1},
		{"two cliques", "", "b AB, , ", none, "", 1},
		{"completed at last", "", "b --, , b A-, b AA, ", 'A', "", 4},
		{"interrupted", "", "b AA, b A-, b AA", none, "", 3},
		{"interrupted, then twice", "", "b AA, b A-, b AA, ", 'A', "", 4},
		{"another between", "", "b AA, b BB, b AA", none, "", 3},
		{"the second of two", "", "b AA, b BB, ", 'B', "", 3},
		{"two boots", "", "b AA, c AA", none, "", 2},
		{"two of the second boot", "", "b AA, c AA, ", 'A', "", 3},
		{"a new boot has to confirm anew", "", "b AA, , c AA", none, "", 3},
		{"and may say otherwise", "", "b AA, , c BB, ", 'B', "", 4},
		{"no boot id", "", " AA, , ", none, "", 1},
		{"no boot id between", "", "b AA,  AA, b AA", none, "", 3},
		{"no boot id after", "", "b AA, ,  AA, ", 'A', "", 3},
		{"not read, but as before", "", "b AA, b AA~, , ", none, "", 2},
		{"not read between two", "", "b AA, b AA~, b AA", none, "", 3},
		{"read twice after that", "", "b AA, b AA~, b AA, ", 'A', "", 4},
		{"not read, later", "", "b AA, , b AA~, ", 'A', "", 3},
		{"garbage between", "", "b AA, garbage, b AA", none, "", 1},
		{"garbage, then an empty line", "", "b AA, garbage, , ", none, "", 1},
		{"garbage, then two", "", "b AA, garbage, b AA, ", 'A', "", 2},
		{"a probe between", "", "b AA, probe, b AA", none, "", 1},
		{"an agent between", "", "b AA, agent, b AA", none, "", 1},
		{"probe and agent later", "", "b AA, , probe, b AA, agent, b AA", 'A', "", 2},
		{"an agent in another boot", "", "b AA, , agent, c AA", none, "", 3},
		{"another clique in the same boot", "", "b AA, , b BB, , ", 'B', "changed", 4},
		{"another clique, two agents", "", "b AA, , agent, b BB, , agent, b BB, ", 'B', "changed", 4},
		{"another clique, read once", "", "b AA, , b BB", 'A', "", 3},
		{"another clique and back", "", "b AA, , b BB, b AA, ", 'A', "", 4},
		{"another clique twice and back", "", "b AA, , b BB, , b AA, ", 'A', "changed", 6},
		{"another clique, then none", "", "b AA, , b BB, , b xx, , ", 'B', "changed lost", 5},
		{"two cliques by turns", "", "b AA, , b BB, b AA, b BB, b AA, b BB", 'A', "", 7},
		{"another clique, interrupted", "", "b AA, , b BB, garbage, b BB", 'A', "", 3},
		{"another clique of one GPU", "", "b AA, , b AB, ", 'A', "", 3},
		{"another clique, then a reboot", "", "b AA, , b BB, , c BB, ", 'B', "", 6},
		{"a report of another boot", domainReport(t, "a", 'C'), "b AA", none, "", 1},
		{"a report of this boot", domainReport(t, "b", 'C'), "b AA", 'C', "", 1},
		{"and another clique twice", domainReport(t, "b", 'C'), "b AA, ", 'A', "changed", 2},
		{"one of this boot from an older agent", domainLine(t, "b", "CC"), "b AA, ", 'A', "", 2},
		{"one of no boot", domainReport(t, "", 'C'), " AA", none, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConfirmer(t, tt.stored)
				for s := range strings.SplitSeq(tt.steps, ", ") {
					c.step(s)
				}
				clique, changed, lost := c.stored()
				var says []string
				if changed {
					says = append(says, "changed")
				}
				if lost {
					says = append(says, "lost")
				}
				if _, writes := c.store.now(); clique != tt.want || strings.Join(says, " ") != tt.says || writes != tt.writes {
					t.Errorf("confirmed %q, %v, %d writes; want %q, %q, %d:\n%s", clique, says, writes, tt.want, tt.says, tt.writes, c.store.report)
				}
			})
		})
	}
}

// domainReport is a stored report that has confirmed a clique.
func domainReport(t testing.TB, boot string, clique rune) string {
	t.Helper()
	n, err := topology.ParseReport("line", []byte(domainLine(t, boot, string(clique))))
	if err != nil {
		t.Fatal(err)
	}
	n.Domain = n.Joined()
	report, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(report)
}

// TestDomainLostSays has the clique in the problem, and what to do.
func TestDomainLostSays(t *testing.T) {
	synctest.Test(t, testDomainLostSays)
}

func testDomainLostSays(t *testing.T) {
	c := newConfirmer(t, "")
	for _, s := range []string{"b AA", "", "b xx"} {
		c.step(s)
	}
	const want = `"problems":[{"reason":"DomainChanged","message":"NVML reports no NVLink between nodes now, ` +
		`and clique 00000000-0000-0000-0000-000000000001.65 was confirmed in this boot: the node stays where it is published; if no NVLink joins it with others any more, reboot it"}]`
	if !strings.Contains(string(c.store.report), want) {
		t.Errorf("no %s in\n%s", want, c.store.report)
	}
}

// TestDomainAtRandom lets much happen and compares what is stored with the rule,
// found anew each time from all that happened: the last of two good readings of one
// boot in a row, heard by one agent from one probe; a clique does not give way to none.
// After a boot with a clique none is not believed.
func TestDomainAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { testDomainAtRandom(t, seed) })
	}
}

func testDomainAtRandom(t *testing.T, seed uint64) {
	words := []string{"", "", "", "b A", "b A", "b B", "b 0", "b -", "garbage", "probe", "agent", "reboot"}
	rng := rand.New(rand.NewPCG(seed, 5))
	c := newConfirmer(t, "")
	boot, repeats, had := 'b', "", false
	var last string // the last reading, where it counts
	var want, read rune
	var wantChanged bool
	var happened []string
	for range 40 {
		what := words[rng.IntN(len(words))]
		if what == "reboot" { // with the agent
			boot, what = boot+1, "agent"
			had = had || want != 0 && want != '0'
			last, repeats, want, wantChanged = "", "", 0, false
		}
		what = strings.Replace(what, "b ", string(boot)+" ", 1)
		happened = append(happened, what)
		switch reading := what; {
		case what == "garbage", what == "probe", what == "agent":
			last, repeats = "", ""
		case what == "" && repeats == "":
		default:
			if what == "" {
				reading = repeats
			}
			repeats = reading
			good := !strings.HasSuffix(reading, "-")
			if is := rune(reading[len(reading)-1]); good && reading == last && (is != '0' || want == 0) {
				wantChanged = wantChanged || want != 0 && want != '0' && is != want
				want = is
			}
			if last = ""; good {
				last = reading
			}
			read = rune(reading[len(reading)-1])
		}
		c.step(what)
		if c.store.report == nil {
			continue
		}
		got, changed, lost := c.stored()
		if silent := c.agent.reported == nil; silent {
			continue // what is stored is another agent's
		}
		want := want
		if want == '0' && had {
			want = 0
		}
		if got != want || changed != wantChanged || lost != (want != 0 && want != '0' && read == '0') {
			t.Fatalf("seed %d: confirmed %q, want %q, changed %t, lost %t, after %q", seed, got, want, changed, lost, happened)
		}
	}
}
