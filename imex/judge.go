package imex

// Verdict says whether a node is a member of its IMEX domain, and what is to be
// done where it is not.
type Verdict struct {
	Node string
	// Reason is a word of this package: Ready, NoMultiNodeNVLink, NotWanted or
	// NoWorkerPod, or a problem.
	Reason string
	// Note is a second word of a node that is ready: what is wrong beside it, first
	// what matters most to a job. Empty where nothing is.
	Note string
	// Message is what is seen, for people.
	Message string
	// Remedy is what to do, empty where nothing is.
	Remedy string
}

// Ready reports whether jobs across nodes may use IMEX here.
func (v Verdict) Ready() bool { return v.Reason == ReasonReady }

// Problem reports whether something is to be done or waited for before the node is
// ready.
func (v Verdict) Problem() bool { return isProblem(v.Reason) }

func isProblem(reason string) bool {
	switch reason {
	case "", ReasonReady, ReasonNoMultiNodeNVLink, ReasonNotWanted, ReasonNoWorkerPod, ReasonNoCRD:
		return false
	}
	return true
}

// Judge returns the verdicts on all nodes that have GPUs or any membership. Each
// names what must be repaired first, and hides what follows from that.
func Judge(s *Seen) map[string]Verdict {
	verdicts := make(map[string]Verdict, len(s.Nodes))
	j := gather(s)
	for i := range j.nodes {
		if n := &j.nodes[i]; n.GPUs || n.member || j.listed(n) {
			n.found = j.first(n)
		}
	}
	for i := range j.nodes {
		n := &j.nodes[i]
		if n.found.reason == "" {
			continue
		}
		v := Verdict{Node: n.Name, Reason: n.found.reason, Message: n.found.message, Remedy: n.found.remedy}
		if v.Ready() {
			j.note(n, &v)
		}
		verdicts[n.Name] = v
	}
	return verdicts
}

// finding is what one look at a node ends with; zero if there is nothing to say.
type finding struct{ reason, message, remedy string }

// first returns the first finding. A look may rely on those before it: they found
// nothing.
func (j *judge) first(n *node) finding {
	for _, look := range [...]func(*judge, *node) finding{
		(*judge).outside,
		(*judge).domain,
		(*judge).fabric,
		(*judge).claims,
		(*judge).host,
		(*judge).claim,
		(*judge).label,
		(*judge).clique,
		(*judge).place,
		(*judge).entry,
	} {
		if f := look(j, n); f.reason != "" {
			return f
		}
	}
	return finding{reason: ReasonReady, message: n.entry.text(n.own)}
}
