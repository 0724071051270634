package imex

// Verdict says whether a node is a member of its IMEX domain, and what is to be
// done where it is not.
type Verdict struct {
	Node string
	// Reason is a word of this package: Ready, NoMultiNodeNVLink, NotWanted or
	// NoWorkerPod, or a problem.
	Reason string
	// Note is a second word of a node that is ready: what is wrong beside it, first
	// what matters most. Empty where nothing is.
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
func (v Verdict) Problem() bool {
	switch v.Reason {
	case ReasonReady, ReasonNoMultiNodeNVLink, ReasonNotWanted, ReasonNoWorkerPod:
		return false
	}
	return true
}

// Judge returns the verdicts on all nodes that have GPUs or any membership.
func Judge(s *Seen) map[string]Verdict {
	verdicts := make(map[string]Verdict, len(s.Nodes))
	for name, n := range s.Nodes {
		switch {
		case n.Fabric == FabricNone:
			verdicts[name] = Verdict{Node: name, Reason: ReasonNoMultiNodeNVLink, Message: "the node has no multi-node NVLink"}
		case s.Join == JoinNone:
			verdicts[name] = Verdict{Node: name, Reason: ReasonNotWanted, Message: "imex.join is none"}
		case s.Domain.UID == "":
			verdicts[name] = Verdict{Node: name, Reason: ReasonNoDomain, Message: s.Domain.Problem.Message, Remedy: "create the ComputeDomain"}
		case s.ready(n):
			verdicts[name] = Verdict{Node: name, Reason: ReasonReady, Message: "its entry in the clique is ready"}
		default:
			verdicts[name] = Verdict{Node: name, Reason: ReasonNotReady, Message: "its entry in the clique is not ready", Remedy: "wait"}
		}
	}
	return verdicts
}

func (s *Seen) ready(n Node) bool {
	for _, c := range s.Cliques {
		for _, m := range c.Daemons {
			if c.Domain == s.Domain.UID && c.ID == n.Clique && m.Node == n.Name {
				return m.Ready
			}
		}
	}
	return false
}
