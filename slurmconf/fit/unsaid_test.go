package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// TestUnsaid asks for jobs on random sites while nobody says how some nodes are. An answer that is
// not "unknown" holds whatever these nodes are: free, busy, unavailable, or not in Slurm. Of more sites
// 2 in 10,000 answers do not hold if some of these nodes are in Slurm and others are not.
func TestUnsaid(t *testing.T) {
	verdicts := map[Verdict]int{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // no secret
		s := randomCloudSite(rng, slurmconf.Latest)
		site := s.site(slurmconf.Latest)
		unsaid, said := map[string]bool{}, site.State
		for range 1 + rng.IntN(4) {
			unsaid[s.nodes[rng.IntN(len(s.nodes))]] = true
		}
		site.State = func(node string) State {
			state := said(node)
			if unsaid[node] {
				state.Use = Unsaid
			}
			return state
		}
		for range 20 {
			j := cloudJob(rng, site, len(s.nodes))
			got := site.Answer(j)
			verdicts[got.Verdict]++
			if got.Verdict == Unknown {
				continue
			}
			for range 10 {
				states := maps.Clone(s.states)
				for node := range unsaid {
					states[node] = State{Use: Use(rng.IntN(int(Absent) + 1))}
				}
				one := *site
				one.State = func(node string) State { return State{states[node].Use, states[node].Off, "", s.gpus[node]} }
				if is := one.Answer(j); is.Verdict != got.Verdict && is.Verdict != Unknown {
					t.Errorf("seed %d: %s: %s, and %s if %v: %s", seed, j.Command(), got.Verdict, is.Verdict, s.uses(slices.Sorted(maps.Keys(unsaid)), states), s.text())
				}
			}
		}
	}
	t.Log(verdicts)
	for _, v := range []Verdict{Now, NotNow, Never, Unknown} {
		if verdicts[v] < 50 {
			t.Errorf("verdicts %v: too few %q", verdicts, v)
		}
	}
}

func (s *cloudSite) uses(nodes []string, states map[string]State) string {
	var words []string
	for _, node := range nodes {
		words = append(words, fmt.Sprint(node, " is ", int(states[node].Use)))
	}
	return strings.Join(words, ", ")
}

// TestFewUnknown asks for jobs on random sites whose nodes are all up. At most one answer in twenty
// is "unknown" for each kind of site and release if the job has none of the options that Slurm alone
// judges.
func TestFewUnknown(t *testing.T) {
	for _, release := range slurmconf.Releases() {
		asked, unknown := map[string]int{}, map[string]int{}
		for seed := range uint64(300) {
			rng := rand.New(rand.NewPCG(seed, uint64(release))) //nolint:gosec // no secret
			s := randomCloudSite(rng, release)
			for name, state := range s.states {
				state.Off = false
				s.states[name] = state
			}
			site := s.site(release)
			for range 20 {
				j := cloudJob(rng, site, len(s.nodes))
				j.Exclusive, j.Spread, j.Consolidate, j.Switches = false, false, false, 0
				if s.mixed {
					j.GPUs = 0
				}
				asked[s.topology.Kind]++
				if site.Answer(j).Verdict == Unknown {
					unknown[s.topology.Kind]++
				}
			}
		}
		t.Logf("%s: %v asked, %v unknown", release, asked, unknown)
		for kind, n := range asked {
			if unknown[kind]*20 > n || n < 300 {
				t.Errorf("%s, %s: %d of %d answers are unknown", release, kind, unknown[kind], n)
			}
		}
	}
}
