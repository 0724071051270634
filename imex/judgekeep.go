package imex

// Keeper judges what is seen again and again as Judge does, and judges anew only
// what a change can reach. Its zero value has judged nothing.
//
// It compares what it is given with what it was given before, which for 10,000 nodes
// takes a few milliseconds, and least where slices and maps are the same ones as
// before. The cliques that a difference is about are judged anew, with those of all
// nodes that have entries in them. If it concerns every node, everything is, and that
// costs as much as Judge and half as much again.
//
// It keeps what it is given and all verdicts, some 6 MB for 10,000 nodes: nothing that
// a Seen leads to may be changed after it was given, the nodes' reports included. A
// change is given as a new map or slice. It is not for several goroutines at once.
type Keeper struct {
	seen     Seen
	ties     ties
	verdicts map[string]Verdict
}

// Judge returns what Judge(s) does. The verdicts are the keeper's: they are not to be
// changed, and they are good until the next call.
func (k *Keeper) Judge(s *Seen) map[string]Verdict {
	byStatus := len(s.Cliques) == 0
	r, part := reachedOf(&k.seen, s, &k.ties)
	switch k.seen = *s; {
	case k.verdicts == nil || !part:
		k.verdicts, k.ties = Judge(s), ties{}
		k.ties.add(s, byStatus)
	case len(r.nodes)+len(r.cliques) > 0:
		for name := range r.nodes {
			delete(k.verdicts, name)
		}
		k.ties.drop(&r)
		s = r.of(s)
		k.ties.add(s, byStatus)
		judgeInto(k.verdicts, s, byStatus)
	}
	return k.verdicts
}
