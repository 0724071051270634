package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
)

func TestCordonMeaning(t *testing.T) {
	for _, tt := range []struct {
		join string
		want meaning
		of   []string
	}{
		{imex.JoinHolder, saysNothing, []string{"", imex.ReasonNoDomain, imex.ReasonDomainDiffers, imex.ReasonDomainForbidden, imex.ReasonDomainDeleting, imex.ReasonClaimConflict, imex.ReasonClaimedByOther}},
		{imex.JoinHolder, saysWell, []string{imex.ReasonReady, imex.ReasonNoMultiNodeNVLink, imex.ReasonNotWanted}},
		{imex.JoinHolder, saysIdle, []string{imex.ReasonNoCRD, imex.ReasonNoWorkerPod}},
		{imex.JoinHolder, saysBad, []string{imex.ReasonFabricUnknown, imex.ReasonHostService, imex.ReasonNotReady, imex.ReasonNoEntry, imex.ReasonClaimWaits, imex.ReasonClaimUnused, imex.ReasonNotClaimed}},
		{imex.JoinSlurmd, saysBad, []string{imex.ReasonFabricUnknown, imex.ReasonNotReady, imex.ReasonNotPrepared}},
		{imex.JoinSlurmd, saysWell, []string{imex.ReasonReady}},
		{imex.JoinSlurmd, saysIdle, []string{imex.ReasonNoCRD, imex.ReasonNoWorkerPod, imex.ReasonClaimWaits, imex.ReasonClaimUnused, imex.ReasonNotClaimed}},
		{imex.JoinSlurmd, saysNothing, []string{imex.ReasonNoDomain, imex.ReasonClaimConflict}},
	} {
		for _, reason := range tt.of {
			if got := (CordonConfig{Join: tt.join}).meaning(imex.Verdict{Reason: reason}); got != tt.want {
				t.Errorf("join %s, %s: %d, want %d", tt.join, reason, got, tt.want)
			}
		}
	}
}

func TestCordonReason(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"the daemon says\n\tNOT \x00 READY ", "quoin: NotReady: the daemon says NOT READY"},
		{"", "quoin: NotReady:"},
		{"\xff\u2028x", "quoin: NotReady: x"},
		{strings.Repeat("ö", 200), "quoin: NotReady: " + strings.Repeat("ö", 90) + "..."},
	} {
		got := cordonReason(imex.Verdict{Reason: imex.ReasonNotReady, Message: tt.message})
		if got != tt.want || len(got) > maxCordonReason || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", tt.message, got, tt.want)
		}
		if (Cordon{true, got}).holder() != heldByUs {
			t.Errorf("%q is not taken for the publisher's own", got)
		}
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ago is a time so long before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

func TestPlanCordons(t *testing.T) {
	const own, theirs = "quoin: NotReady: x", "disk failed"
	bad := func(d time.Duration) cordonWatch { return cordonWatch{bad: ago(d), seen: ago(d)} }
	well := func(d time.Duration) cordonWatch { return cordonWatch{well: ago(d)} }
	node := func(name string, has Cordon, w cordonWatch) cordonNode {
		return cordonNode{Node: &Node{Name: name}, has: has, watch: w, reason: "quoin: NotReady: " + name}
	}
	waiting := func(n cordonNode, counts bool, tries int) cordonNode {
		n.waits, n.counts, n.tries = tries == 0, counts, tries
		return n
	}
	tests := []struct {
		name     string
		all      int
		nodes    []cordonNode
		want     []string
		heldBack int
		again    time.Duration // after noon
	}{
		{"nothing", 10, nil, nil, 0, 0},
		{"bad for long enough", 10, []cordonNode{node("a", Cordon{}, bad(10*time.Minute))}, []string{`cordon a true "quoin: NotReady: a"`}, 0, 0},
		{"not yet", 10, []cordonNode{node("a", Cordon{}, bad(9*time.Minute))}, nil, 0, time.Minute},
		{"bad for long, seen for a moment", 10, []cordonNode{node("a", Cordon{}, cordonWatch{bad: ago(time.Hour), seen: ago(20 * time.Second)})}, nil, 0, 40 * time.Second},
		{"the longest goes first, by its name", 25, []cordonNode{node("b", Cordon{}, bad(11*time.Minute)), node("c", Cordon{}, bad(time.Hour)), node("a", Cordon{}, bad(11*time.Minute))},
			[]string{`cordon c true "quoin: NotReady: c"`, `cordon a true "quoin: NotReady: a"`}, 1, 0},
		{"those that are cordoned count", 29, []cordonNode{node("a", Cordon{true, own}, cordonWatch{}), node("b", Cordon{true, own}, cordonWatch{}), node("c", Cordon{}, bad(time.Hour))}, nil, 1, 0},
		{"and in the step that uncordons one", 10, []cordonNode{node("a", Cordon{true, own}, well(time.Minute)), node("c", Cordon{}, bad(time.Hour))}, []string{`uncordon a false ""`}, 1, 0},
		{"others' do not count", 10, []cordonNode{node("a", Cordon{true, theirs}, well(time.Hour)), node("b", Cordon{true, ""}, well(time.Hour)), node("c", Cordon{}, bad(time.Hour))}, []string{`cordon c true "quoin: NotReady: c"`}, 0, 0},
		{"others' are never touched", 10, []cordonNode{node("a", Cordon{true, theirs}, bad(time.Hour)), node("b", Cordon{true, ""}, bad(time.Hour)), node("c", Cordon{false, theirs}, bad(time.Hour)), node("d", Cordon{false, theirs}, well(time.Hour))}, nil, 0, 0},
		{"well for a moment", 10, []cordonNode{node("a", Cordon{true, own}, well(20*time.Second))}, nil, 0, 40 * time.Second},
		{"idle for a while", 10, []cordonNode{node("a", Cordon{true, own}, cordonWatch{calm: ago(9 * time.Minute)})}, nil, 0, time.Minute},
		{"idle for as long as it would be bad", 10, []cordonNode{node("a", Cordon{true, own}, cordonWatch{calm: ago(10 * time.Minute)})}, []string{`uncordon a false ""`}, 0, 0},
		{"idle and left alone", 10, []cordonNode{node("a", Cordon{false, cordonLeft}, cordonWatch{calm: ago(time.Hour)})}, nil, 0, 0},
		{"idle, and then well", 10, []cordonNode{node("a", Cordon{true, own}, cordonWatch{calm: ago(5 * time.Minute), well: ago(time.Minute)})}, []string{`uncordon a false ""`}, 0, 0},
		{"neither well nor bad", 10, []cordonNode{node("a", Cordon{true, own}, cordonWatch{}), node("b", Cordon{false, cordonLeft}, cordonWatch{})}, nil, 0, 0},
		{"uncordoned by hand", 10, []cordonNode{node("a", Cordon{false, own}, bad(time.Hour))}, []string{fmt.Sprintf("leave a false %q", cordonLeft)}, 0, 0},
		{"uncordoned by hand as it was well", 10, []cordonNode{node("a", Cordon{false, own}, well(time.Second))}, []string{`clear a false ""`}, 0, 0},
		{"left alone", 10, []cordonNode{node("a", Cordon{false, cordonLeft}, bad(time.Hour)), node("b", Cordon{true, cordonLeft}, bad(time.Hour))}, nil, 0, 0},
		{"left alone until it is well", 10, []cordonNode{node("a", Cordon{false, cordonLeft}, well(time.Minute))}, []string{`clear a false ""`}, 0, 0},
		{"another's cordon on it stays", 10, []cordonNode{node("a", Cordon{true, cordonLeft}, well(time.Minute))}, []string{`clear a true ""`}, 0, 0},
		{"one that may be cordoned goes first, in its place", 10, []cordonNode{waiting(node("a", Cordon{}, bad(time.Hour)), true, 1), node("b", Cordon{}, bad(2*time.Hour))}, []string{`cordon a true "quoin: NotReady: a"`}, 1, 0},
		{"one that waits has its place", 10, []cordonNode{waiting(node("a", Cordon{}, bad(time.Hour)), true, 0), node("b", Cordon{}, bad(time.Hour))}, nil, 1, 0},
		{"one that was refused has none", 10, []cordonNode{waiting(node("a", Cordon{}, bad(time.Hour)), false, 0), node("b", Cordon{}, bad(time.Hour))}, []string{`cordon b true "quoin: NotReady: b"`}, 0, 0},
		{"one that failed comes last", 10, []cordonNode{waiting(node("a", Cordon{}, bad(time.Hour)), false, 1), node("b", Cordon{}, bad(20*time.Minute))}, []string{`cordon b true "quoin: NotReady: b"`}, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps, heldBack, again := planCordons(tt.nodes, tt.all, 10*time.Minute, noon)
			var got []string
			for _, s := range steps {
				got = append(got, fmt.Sprintf("%s %s %t %q", s.action, s.node.Name, s.to.Unschedulable, s.to.Reason))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || heldBack != tt.heldBack {
				t.Errorf("held back %d, want %d (-want +got):\n%s", heldBack, tt.heldBack, diff)
			}
			if again.IsZero() != (tt.again == 0) || tt.again != 0 && !again.Equal(noon.Add(tt.again)) {
				t.Errorf("looks again at %s, want noon and %s", again, tt.again)
			}
		})
	}
}

// TestCordonWatch tells when a node's time begins anew.
func TestCordonWatch(t *testing.T) {
	type at struct {
		after   time.Duration // noon
		is      meaning
		unknown bool
		has     Cordon
		since   time.Duration // before noon
	}
	const minute = time.Minute
	own, theirs := Cordon{true, "quoin: NotReady: x"}, Cordon{true, ""}
	tests := []struct {
		name  string
		looks []at
		due   time.Duration // after noon, 0 for never
		left  bool
	}{
		{"never bad", []at{{0, saysWell, false, Cordon{}, 0}}, 0, false},
		{"bad", []at{{minute, saysBad, false, Cordon{}, 0}, {5 * minute, saysBad, false, Cordon{}, 0}}, 11 * minute, false},
		{"a break", []at{{minute, saysBad, false, Cordon{}, 0}, {5 * minute, saysWell, false, Cordon{}, 0}, {6 * minute, saysBad, false, Cordon{}, 0}}, 16 * minute, false},
		{"a domain that nobody can join is a break", []at{{minute, saysBad, false, Cordon{}, 0}, {5 * minute, saysNothing, false, Cordon{}, 0}, {6 * minute, saysBad, false, Cordon{}, 0}}, 16 * minute, false},
		{"another's cordon is a break", []at{{minute, saysBad, false, Cordon{}, 0}, {5 * minute, saysBad, false, theirs, 0}, {6 * minute, saysBad, false, Cordon{}, 0}}, 16 * minute, false},
		{"since before", []at{{0, saysBad, false, Cordon{}, 5 * minute}}, 5 * minute, false},
		{"since long before", []at{{0, saysBad, false, Cordon{}, 50 * minute}}, minute, false},
		{"boots while it is bad", []at{{0, saysBad, false, Cordon{}, 0}, {9 * minute, saysBad, true, Cordon{}, 0}}, 19 * minute, false},
		{"has booted and is bad", []at{{0, saysBad, true, Cordon{}, 0}, {9 * minute, saysBad, false, Cordon{}, 0}}, 10 * minute, false},
		{"uncordoned by hand without a trace", []at{{0, saysBad, false, own, 0}, {minute, saysBad, false, Cordon{}, 0}, {90 * minute, saysBad, false, Cordon{}, 0}}, 0, true},
		{"that and well", []at{{0, saysBad, false, own, 0}, {minute, saysWell, false, Cordon{}, 0}, {2 * minute, saysWell, false, Cordon{}, 0}, {3 * minute, saysBad, false, Cordon{}, 0}}, 13 * minute, false},
		{"that and well for a moment", []at{{0, saysBad, false, own, 0}, {minute, saysWell, false, Cordon{}, 0}, {minute + 1, saysBad, false, Cordon{}, 0}}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w cordonWatch
			for _, l := range tt.looks {
				var since time.Time
				if l.since > 0 {
					since = ago(l.since)
				}
				w.look(l.is, l.unknown, l.has, since, noon.Add(l.after))
			}
			due := w.due(10 * minute)
			if due.IsZero() != (tt.due == 0) || tt.due != 0 && !due.Equal(noon.Add(tt.due)) || w.left != tt.left {
				t.Errorf("due at %s, left %t; want noon and %s, %t", due, w.left, tt.due, tt.left)
			}
		})
	}
}
