package imex

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wait adds claims of pods that no node has taken.
func (s *Observation) wait(namespace, owner, domain string, pods ...string) {
	for _, pod := range pods {
		s.Claims = append(s.Claims, Claim{Namespace: namespace, Name: pod + "-channel", Domain: domain, Owner: owner, Waiting: namespace + "/" + pod})
	}
}

func TestJudgeUnplaced(t *testing.T) {
	slurmd := func(s *Observation) {
		s.Join = JoinSlurmd
		for i := range s.Claims {
			s.Claims[i].Owner = OwnerSlurmd
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(s *Observation)
		want  []string // "namespace/owner reason claims"
		says  []string
	}{
		{name: "none waits", spoil: func(*Observation) {}},
		{name: "workers, while the holder has all", spoil: func(s *Observation) { s.wait("slurm", OwnerSlurmd, testUID, "w-4", "w-1", "w-0", "w-3") },
			want: []string{"slurm/slurmd WrongClaim 4"},
			says: []string{"4 claims for worker pods in namespace slurm (slurm/w-0, slurm/w-1, slurm/w-3 and 1 more) wait for a node with", "0 of 4 nodes with GPUs have one (the holder's pods have 4)", "imex.join is holder", "resourceClaims of the NodeSet"}},
		{name: "workers, while the holder has not come yet", spoil: func(s *Observation) {
			s.Claims = nil
			s.wait("slurm", OwnerSlurmd, "", "w-0")
		}, want: []string{"slurm/slurmd WrongClaim 1"}, says: []string{"1 claim for", "(slurm/w-0) waits for", "4 of 4 nodes with GPUs have one;"}},
		{name: "the holder left its pods where workers claim", spoil: func(s *Observation) {
			s.Join = JoinSlurmd
			s.wait("quoin-system", OwnerSlurmd, testUID, "w-0")
		}, want: []string{"quoin-system/slurmd WrongClaim 1"}, says: []string{"delete the DaemonSet", "imex.join is slurmd"}},
		{name: "more workers than nodes", spoil: func(s *Observation) {
			slurmd(s)
			s.wait("quoin-system", OwnerSlurmd, testUID, "w-4")
		}, want: []string{"quoin-system/slurmd NotClaimed 1"}, says: []string{"(worker pods have 4)", "at most as many claiming pods as"}},
		{name: "a worker of a moment ago", spoil: func(s *Observation) {
			slurmd(s)
			s.unclaim("n1")
			s.wait("quoin-system", OwnerSlurmd, testUID, "w-4")
		}, want: []string{"quoin-system/slurmd NotClaimed 1"}, says: []string{"1 of 4 nodes", "the scheduler needs a moment"}},
		{name: "a node without GPUs, and one that a pod waits on", spoil: func(s *Observation) {
			slurmd(s)
			s.unclaim("n1")
			s.Nodes["cpu"] = Node{Name: "cpu"}
			s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: "c", Node: "n1", Owner: OwnerSlurmd, Waiting: "quoin-system/w-1"})
			s.wait("quoin-system", OwnerSlurmd, testUID, "w-4")
		}, want: []string{"quoin-system/slurmd NotClaimed 1"}, says: []string{"0 of 4 nodes"}},
		{name: "others", spoil: func(s *Observation) { s.wait("team", OwnerOther, testUID, "train-0") },
			want: []string{"team/other WrongClaim 1"}, says: []string{"for other pods in namespace team (team/train-0)", "keep other pods with channel claims off"}},
		{name: "workers of a domain that was made anew", spoil: func(s *Observation) {
			slurmd(s)
			s.wait("quoin-system", OwnerSlurmd, otherUID, "w-4", "w-5")
		}, want: []string{"quoin-system/slurmd WrongClaim 2"}, says: []string{"2 claims of domain " + otherUID, "delete these pods: their claims are of domain " + otherUID + ", and the cluster's domain is " + testUID + " (quoin-system/quoin)"}},
		{name: "workers with a domain of their own, beside the holder", spoil: func(s *Observation) { s.wait("slurm", OwnerSlurmd, otherUID, "w-0") },
			want: []string{"slurm/slurmd WrongClaim 1"}, says: []string{"1 claim of domain " + otherUID, "resourceClaims of the NodeSet"}},
		{name: "others with a domain of their own", spoil: func(s *Observation) { s.wait("team", OwnerOther, otherUID, "a") },
			want: []string{"team/other WrongClaim 1"}, says: []string{"1 claim of domain " + otherUID, "keep other pods with channel claims off"}},
		{name: "three kinds", spoil: func(s *Observation) {
			s.wait("team", OwnerOther, otherUID, "a", "b")
			s.wait("team", OwnerOther, testUID, "c")
			s.wait("slurm", OwnerSlurmd, testUID, "w-0")
		}, want: []string{"slurm/slurmd WrongClaim 1", "team/other WrongClaim 2", "team/other WrongClaim 1"}},
		{name: "no domain to differ from", spoil: func(s *Observation) {
			s.Domain.UID = ""
			s.wait("slurm", OwnerSlurmd, otherUID, "w-0")
		}, want: []string{"slurm/slurmd WrongClaim 1"}},
		{name: "workers that may run on a node alone that has gone", spoil: func(s *Observation) {
			slurmd(s)
			s.wait("quoin-system", OwnerSlurmd, testUID, "w-4", "w-5", "w-6")
			for i, node := range []string{"n9", "n9", "n1"} { // n1's verdict speaks of it
				s.Claims[4+i].Node = node
			}
		}, want: []string{"quoin-system/slurmd WrongClaim 2"}, says: []string{"(quoin-system/w-4, quoin-system/w-5) wait for a node that is not known: n9; imex.join is slurmd", "let the node join the cluster"}},
		{name: "no nodes", spoil: func(s *Observation) {
			s.Nodes = nil
			s.wait("quoin-system", OwnerHolder, testUID, "h")
		}, want: []string{"quoin-system/holder NotClaimed 1"}, says: []string{"no node with GPUs is known", "let nodes with GPUs join the cluster"}},
		{name: "nodes are to join none", spoil: func(s *Observation) {
			s.Join = JoinNone
			s.wait("slurm", OwnerSlurmd, testUID, "w-0")
		}},
		{name: "a claim that nobody waits for", spoil: func(s *Observation) {
			s.Claims = append(s.Claims, Claim{Namespace: "slurm", Name: "c", Owner: OwnerSlurmd})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rack()
			c.spoil(s)
			var got []string
			text := ""
			for _, u := range JudgeUnplaced(s) {
				got = append(got, fmt.Sprintf("%s/%s %s %d", u.Namespace, u.Owner, u.Reason, u.Claims))
				text += u.Message + "\n" + u.Remedy + "\n"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in\n%s", part, text)
				}
			}
		})
	}
}

// TestJudgeUnplacedRandom holds that each claim without a node is counted once,
// whatever the order.
func TestJudgeUnplacedRandom(t *testing.T) {
	known := knownWords(t)
	r := rand.New(rand.NewPCG(4, 72))
	for range 2000 {
		s := randomSeen(r)
		for range r.IntN(6) {
			c := Claim{Namespace: []string{"quoin-system", "slurm"}[r.IntN(2)], Owner: []string{OwnerHolder, OwnerSlurmd, OwnerOther, ""}[r.IntN(4)], Domain: []string{testUID, otherUID, ""}[r.IntN(3)]}
			c.Name = fmt.Sprintf("c%d", r.IntN(100))
			c.Waiting = c.Namespace + "/" + c.Name
			s.Claims = append(s.Claims, c)
		}
		want := 0
		for _, c := range s.Claims {
			if _, known := s.Nodes[c.Node]; !known && c.Waiting != "" && s.Join != JoinNone {
				want++
			}
		}
		before := s.clone()
		all := JudgeUnplaced(s)
		if !reflect.DeepEqual(before, s) {
			t.Fatalf("JudgeUnplaced changed what is seen:\n%s", cmp.Diff(before, s))
		}
		if again := JudgeUnplaced(before.shuffle(r)); !slices.Equal(all, again) {
			t.Fatalf("another order, other words:\n%s", cmp.Diff(all, again))
		}
		got := 0
		for _, u := range all {
			got += u.Claims
			if !slices.Contains(known, u.Reason) || u.Message == "" || u.Remedy == "" {
				t.Errorf("no word of this package, no message or no remedy: %+v", u)
			}
		}
		if got != want {
			t.Fatalf("%d claims, want %d: %+v", got, want, all)
		}
	}
}

func BenchmarkJudgeUnplaced(b *testing.B) {
	s := rack()
	s.Claims = nil
	for i := range 10000 {
		name := fmt.Sprintf("n%05d", i)
		s.Nodes[name] = Node{Name: name, GPUs: true}
		s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: name, Node: name, Owner: OwnerHolder, Pods: []string{"quoin-system/" + name}})
	}
	for _, waiting := range []int{0, 10000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			one := *s
			one.Claims = slices.Clone(s.Claims)
			for i := range waiting {
				one.wait("slurm", OwnerSlurmd, testUID, fmt.Sprintf("w-%d", i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if got := len(JudgeUnplaced(&one)); got != min(waiting, 1) {
					b.Fatal(got)
				}
			}
		})
	}
}
