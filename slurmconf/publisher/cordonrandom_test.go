package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
)

// cordonWorld is a cluster of which the publisher sees some nodes late, in which
// writes fail, and in which people do what they like.
type cordonWorld struct {
	mu      sync.Mutex
	rng     *rand.Rand
	now     time.Time
	nodes   map[string]*cordonTruth
	seen    Snapshot
	broken  string // what the next writes violate
	failing bool
	writes  int
}

// cordonTruth is how a node is.
type cordonTruth struct {
	cordon  Cordon
	version int
	verdict string    // a reason
	since   time.Time // of this verdict
	bad     time.Time // since when it is bad without a break
	well    time.Time
	calm    time.Time // since when it is idle or well
	left    bool      // uncordoned by hand as it was not well, and not well since
	touched bool      // by hand, and not well since
	said    Condition
	written time.Time // the condition
}

const cordonNodes, cordonAfter = 40, 5 * time.Minute

var errLost = errors.New("the connection was lost")

// SetCordon implements CordonSetter, and checks what a write may do.
func (w *cordonWorld) SetCordon(_ context.Context, n *Node, to Cordon) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	is := w.nodes[n.Name]
	dice := 9
	if w.failing {
		dice = w.rng.IntN(4)
	}
	switch {
	case n.Version != strconv.Itoa(is.version):
		return ErrNodeChanged
	case dice == 0:
		return ErrCordonRefused
	case dice == 1:
		return errLost
	}
	w.check(n.Name, is, to)
	is.cordon, is.version = to, is.version+1
	if dice == 2 {
		return errLost // but it was written
	}
	return nil
}

func (w *cordonWorld) check(name string, is *cordonTruth, to Cordon) {
	ours := 0
	for _, n := range w.nodes {
		if n.cordon.holder() == heldByUs {
			ours++
		}
	}
	switch from := is.cordon.holder(); {
	case from == heldByNobody && to.holder() == heldByUs:
		switch {
		case ours >= cordonNodes/10:
			w.broken = fmt.Sprintf("%s is cordoned beside %d", name, ours)
		case is.bad.IsZero() || w.now.Sub(is.bad) < cordonAfter:
			w.broken = fmt.Sprintf("%s is cordoned at %s, bad since %s", name, w.now, is.bad)
		case is.left:
			w.broken = name + " is cordoned though it was uncordoned by hand"
		}
	case from == heldByUs && to == (Cordon{}), from == releasedByUs && to == (Cordon{is.cordon.Unschedulable, ""}):
		rested := from == heldByUs && !is.calm.IsZero() && w.now.Sub(is.calm) >= cordonAfter
		if !rested && (is.well.IsZero() || w.now.Sub(is.well) < cordonSettle) {
			w.broken = fmt.Sprintf("%s is let go at %s, well since %s, idle since %s", name, w.now, is.well, is.calm)
		}
	case from == releasedAnew && to == (Cordon{false, cordonLeft}), from == releasedAnew && to == (Cordon{}) && !is.well.IsZero():
	default:
		w.broken = fmt.Sprintf("%s: %+v becomes %+v", name, is.cordon, to)
	}
}

var cordonReasons = []string{imex.ReasonReady, imex.ReasonReady, imex.ReasonNotReady, imex.ReasonNotReady, imex.ReasonFabricUnknown, imex.ReasonNoDomain, imex.ReasonClaimConflict, imex.ReasonNoCRD}

// judge gives a node another verdict.
func (w *cordonWorld) judge(n *cordonTruth, reason string) {
	if n.verdict == reason || n.since.Equal(w.now) {
		return // what comes and goes between two looks is not seen
	}
	is := CordonConfig{}.meaning(imex.Verdict{Reason: reason})
	switch {
	case is != saysBad:
		n.bad = time.Time{}
	case n.bad.IsZero() || reason == imex.ReasonFabricUnknown:
		n.bad = w.now
	}
	if is != saysWell {
		n.well = time.Time{}
	} else if n.well.IsZero() {
		n.well = w.now
	}
	if is != saysIdle && is != saysWell {
		n.calm = time.Time{}
	} else if n.calm.IsZero() {
		n.calm = w.now
	}
	n.verdict, n.since = reason, w.now
}

// byHand has somebody do something to a node.
func (w *cordonWorld) byHand(n *cordonTruth) {
	was := n.cordon
	switch w.rng.IntN(4) {
	case 0:
		if was.holder() == releasedAnew {
			return // it would be taken for the publisher's
		}
		n.cordon.Unschedulable = true
	case 1:
		n.cordon.Unschedulable = false
	case 2:
		n.cordon.Reason = "disk failed"
	case 3:
		n.cordon = Cordon{}
	}
	if n.cordon == was {
		return
	}
	n.version++
	n.touched = true
	if was.holder() == heldByUs && n.cordon.holder() == releasedAnew && n.well.IsZero() {
		n.left = true
	}
}

// show has the publisher see nodes, late ones too where all is set.
func (w *cordonWorld) show(all bool) map[string]imex.Verdict {
	verdicts := map[string]imex.Verdict{}
	for i := range w.seen.Nodes {
		n := &w.seen.Nodes[i]
		is := w.nodes[n.Name]
		verdicts[n.Name] = imex.Verdict{Node: n.Name, Reason: is.verdict, Message: "as it is"}
		if all || w.rng.IntN(3) > 0 {
			n.Cordon, n.Version = is.cordon, strconv.Itoa(is.version)
		}
		n.Conditions, n.NotReadySince = map[string]Condition{ConditionIMEX: is.said}, is.written
		if is.said.Reason != is.verdict { // which the publisher writes after its look
			is.said, is.written = Condition{Type: ConditionIMEX, Reason: is.verdict, True: imex.Verdict{Reason: is.verdict}.Problem()}, w.now
		}
		if !is.well.IsZero() && w.now.Sub(is.well) >= cordonSettle {
			is.left, is.touched = false, false
		}
		if is.cordon.holder() == heldByNobody || is.cordon.holder() == heldByOthers {
			is.left = is.left && is.cordon.Reason == cordonLeft
		}
	}
	return verdicts
}

// TestRandomCordons lets the publisher work in a random world: it never touches what is
// another's, never cordons more than a tenth, too early, or against somebody's will,
// and comes to rest.
func TestRandomCordons(t *testing.T) {
	cordoned := 0
	for seed := range uint64(24) {
		w := &cordonWorld{rng: rand.New(rand.NewPCG(seed, 7)), now: noon, nodes: map[string]*cordonTruth{}}
		for i := range cordonNodes {
			name := fmt.Sprintf("n%02d", i)
			w.nodes[name] = &cordonTruth{version: 1, verdict: imex.ReasonReady, well: noon, calm: noon, since: noon}
			w.seen.Nodes = append(w.seen.Nodes, Node{Name: name})
		}
		p := w.publisher()
		for range 1500 {
			w.now = w.now.Add(time.Duration(w.rng.IntN(20)) * time.Second)
			w.failing = w.rng.IntN(3) == 0
			for range w.rng.IntN(3) {
				w.judge(w.any(), cordonReasons[w.rng.IntN(len(cordonReasons))])
			}
			if w.rng.IntN(10) == 0 {
				w.byHand(w.any())
			}
			if w.rng.IntN(100) == 0 {
				p = w.publisher() // the other one leads
			}
			p.keepCordons(t.Context(), &w.seen, w.show(w.rng.IntN(2) == 0), w.now)
			if w.broken != "" {
				t.Fatalf("seed %d: %s", seed, w.broken)
			}
		}
		cordoned += w.rest(t, p, seed)
	}
	if cordoned < 40 {
		t.Errorf("%d nodes were cordoned in all worlds at rest: the test shows little", cordoned)
	}
}

func (w *cordonWorld) publisher() *Publisher {
	p := newPublisher(newMemory(&Snapshot{}), nil)
	p.KeepConditions(newMemory(nil))
	p.KeepCordons(w, CordonConfig{After: cordonAfter, Join: imex.JoinHolder})
	return p
}

func (w *cordonWorld) any() *cordonTruth {
	return w.nodes[fmt.Sprintf("n%02d", w.rng.IntN(cordonNodes))]
}

// rest lets time go by without a change, and returns how many nodes are cordoned: as
// many as are bad and may be.
func (w *cordonWorld) rest(t *testing.T, p *Publisher, seed uint64) int {
	t.Helper()
	w.failing = false
	for range 100 {
		w.now = w.now.Add(time.Minute)
		p.keepCordons(t.Context(), &w.seen, w.show(true), w.now)
	}
	before := w.writes
	for range 100 {
		w.now = w.now.Add(time.Minute)
		p.keepCordons(t.Context(), &w.seen, w.show(true), w.now)
	}
	if w.writes != before || w.broken != "" {
		t.Fatalf("seed %d: %d writes at rest; %s", seed, w.writes-before, w.broken)
	}
	for name, kept := range p.cordons.nodes {
		if kept.left && !w.nodes[name].touched {
			t.Errorf("seed %d: %s is taken for uncordoned by hand", seed, name)
		}
	}
	ours, free := 0, 0
	for name, n := range w.nodes {
		is := CordonConfig{}.meaning(imex.Verdict{Reason: n.verdict})
		switch holder := n.cordon.holder(); {
		case holder == heldByUs:
			ours++
			if is == saysWell || is == saysIdle {
				t.Errorf("seed %d: %s is %s and cordoned", seed, name, n.verdict)
			}
		case holder == heldByNobody && is == saysBad && !p.cordons.nodes[name].left:
			free++
		case holder == releasedAnew, holder == releasedByUs && is == saysWell:
			t.Errorf("seed %d: %s is %s and has %+v", seed, name, n.verdict, n.cordon)
		}
	}
	if ours < cordonNodes/10 && free > 0 {
		t.Errorf("seed %d: %d nodes are cordoned while %d are bad and free", seed, ours, free)
	}
	return ours
}
