package lint

import (
	"cmp"
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// GPULines counts the nodes of slurm.conf whose Gres= counts gpus, by how these go with gres.conf.
type GPULines struct {
	Agree, Differ, NotJudged int
	// Why says of the first node that is not judged why.
	Why string
}

// String returns the counts as a part of a sentence. It is empty without such a node.
func (g GPULines) String() string {
	if g == (GPULines{}) {
		return ""
	}
	text := fmt.Sprintf("nodes whose gpu lines agree: %d, differ: %d, not judged: %d", g.Agree, g.Differ, g.NotJudged)
	if g.Why != "" {
		text += " (" + g.Why + ")"
	}
	return text
}

// verdict is how the gpus of a node's Gres= go with gres.conf: OK, Fatal if they differ, or Unknown with a why.
type verdict struct {
	topology.Severity
	why string
}

// weights order verdicts: the worst one that is noted for a node counts.
var weights = map[topology.Severity]int{topology.OK: 1, topology.Unknown: 2, topology.Fatal: 3}

// about calls f. The findings that f adds are about the nodes, and the worst of them is the nodes' verdict. Findings of
// an inner call of about are about the inner call's nodes alone. about returns the other findings.
func (l *linter) about(nodes []string, f func()) (own []topology.Finding) {
	first := len(l.All)
	f()
	for i := first; i < len(l.All); i++ {
		if found := l.All[i]; !l.noted[i] {
			l.noted[i] = true
			own = append(own, found)
			l.note(nodes, found.Severity, found.Message)
		}
	}
	return own
}

// note notes a verdict about nodes. A warning is none.
func (l *linter) note(nodes []string, s topology.Severity, why string) {
	for _, n := range nodes {
		if weights[s] > weights[l.verdicts[n].Severity] {
			l.verdicts[n] = verdict{s, why}
		}
	}
}

// gpuLines counts the verdicts. A node without one has a gres.conf that was not read.
func (l *linter) gpuLines() (g GPULines) {
	first := ""
	for name, n := range l.Nodes {
		if len(n.Gres.GPUs) == 0 && len(n.Gres.Unread) == 0 {
			continue
		}
		switch v := l.verdicts[name]; v.Severity {
		case topology.OK:
			g.Agree++
		case topology.Fatal:
			g.Differ++
		default:
			if g.NotJudged++; first == "" || name < first {
				first, g.Why = name, name+": "+cmp.Or(v.why, "gres.conf was not read")
			}
		}
	}
	return g
}
