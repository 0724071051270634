package switches

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"slices"
)

// together says which sets belong together, because most members of the smaller one are in both.
// For sets that are joined already the mean of all pairs counts: one set that overlaps with two
// others does not join these. One pair must not be enough to join two groups: when a few cables are
// swapped between two racks, one leaf of each rack can share most of its nodes with the other.
//
// It returns for each set the first set of those that it is joined with. The strongest are joined
// first, and of equal ones the first: the order of the sets decides, and nothing else. A set without
// members stays alone.
//
// The members of each set are sorted, from 0 to members-1.
func together(sets [][]int32, members int) []int32 {
	j := joiner{sets: sets, of: newSets(len(sets)), clusters: make([]cluster, len(sets))}
	alike := map[string]int32{}
	for i, set := range sets {
		if len(set) == 0 {
			continue
		}
		key := make([]byte, 0, 4*len(set))
		for _, m := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(m))
		}
		if first, ok := alike[string(key)]; ok {
			j.of[i] = first
			j.clusters[first].sizes = append(j.clusters[first].sizes, int32(len(set)))
			continue
		}
		alike[string(key)] = int32(i)
		j.clusters[i] = cluster{sizes: []int32{int32(len(set))}, shared: map[int32]int64{}}
	}
	j.count(members)
	j.join()
	for i := range j.of {
		j.of[i] = j.of.root(int32(i))
	}
	return j.of
}

// cluster is a number of sets that are together. sizes are sorted.
type cluster struct {
	sizes []int32
	// shared has for each other cluster how many members two sets share, summed over all pairs.
	shared map[int32]int64
}

// pair is two clusters and how much they overlap: shared of least.
type pair struct {
	a, b          int32
	shared, least int64
}

type joiner struct {
	sets     [][]int32
	of       sets // by set: the cluster that it went into
	clusters []cluster
	pairs    []pair // a heap
}

// count fills in what clusters share.
func (j *joiner) count(members int) {
	holders := make([][]int32, members)
	for i := range j.clusters {
		if j.clusters[i].sizes == nil {
			continue
		}
		for _, m := range j.sets[i] {
			holders[m] = append(holders[m], int32(i))
		}
	}
	shared := make([]int64, len(j.sets))
	var touched []int32
	for i := range j.clusters {
		if j.clusters[i].sizes == nil {
			continue
		}
		touched = touched[:0]
		for _, m := range j.sets[i] {
			at, _ := slices.BinarySearch(holders[m], int32(i)+1)
			for _, other := range holders[m][at:] {
				if shared[other] == 0 {
					touched = append(touched, other)
				}
				shared[other]++
			}
		}
		slices.Sort(touched)
		for _, other := range touched {
			pairs := int64(len(j.clusters[i].sizes)) * int64(len(j.clusters[other].sizes))
			j.clusters[i].shared[other] = shared[other] * pairs
			j.clusters[other].shared[int32(i)] = shared[other] * pairs
			shared[other] = 0
			if p, ok := j.pair(int32(i), other); ok {
				j.pairs = append(j.pairs, p)
			}
		}
	}
	heap.Init((*strongest)(j))
}

// manySets is from how many sets on half is enough: many cables must be missing by chance until a
// mean of so many pairs is that low, and sets of different racks share next to nothing.
const manySets = 4

// pair returns a pair of clusters, and whether most members of the smaller sets are in both.
func (j *joiner) pair(a, b int32) (pair, bool) {
	if b < a {
		a, b = b, a
	}
	p := pair{a: a, b: b, shared: j.clusters[a].shared[b], least: least(j.clusters[a].sizes, j.clusters[b].sizes)}
	sets := len(j.clusters[a].sizes) + len(j.clusters[b].sizes)
	return p, 2*p.shared > p.least || 2*p.shared == p.least && sets >= manySets
}

// least returns the sum over all pairs of the smaller of two sizes. Both are sorted.
func least(a, b []int32) int64 {
	var sum, before int64 // before: sum of b[:at]
	at := 0
	for _, size := range a {
		for at < len(b) && b[at] <= size {
			before += int64(b[at])
			at++
		}
		sum += before + int64(size)*int64(len(b)-at)
	}
	return sum
}

// join joins the strongest pair until none is left.
func (j *joiner) join() {
	for len(j.pairs) > 0 {
		p := heap.Pop((*strongest)(j)).(pair)
		a, b := &j.clusters[p.a], &j.clusters[p.b]
		if a.sizes == nil || b.sizes == nil || a.shared[p.b] != p.shared || least(a.sizes, b.sizes) != p.least {
			continue // joined since
		}
		j.of[p.b] = p.a
		a.sizes = append(a.sizes, b.sizes...)
		slices.Sort(a.sizes)
		delete(a.shared, p.b)
		for other, n := range b.shared {
			if other != p.a {
				a.shared[other] += n
				j.clusters[other].shared[p.a] = a.shared[other]
				delete(j.clusters[other].shared, p.b)
			}
		}
		*b = cluster{}
		others := make([]int32, 0, len(a.shared))
		for other := range a.shared {
			others = append(others, other)
		}
		slices.Sort(others)
		for _, other := range others {
			if p, ok := j.pair(p.a, other); ok {
				heap.Push((*strongest)(j), p)
			}
		}
	}
}

// strongest orders pairs: the strongest first, of equal ones the larger, then the first.
type strongest joiner

func (s *strongest) Len() int { return len(s.pairs) }
func (s *strongest) Less(x, y int) bool {
	p, q := s.pairs[x], s.pairs[y]
	return cmp.Or(cmp.Compare(float64(q.shared)/float64(q.least), float64(p.shared)/float64(p.least)), cmp.Compare(q.least, p.least), cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b)) < 0
}
func (s *strongest) Swap(x, y int) { s.pairs[x], s.pairs[y] = s.pairs[y], s.pairs[x] }
func (s *strongest) Push(x any)    { s.pairs = append(s.pairs, x.(pair)) }
func (s *strongest) Pop() any {
	last := s.pairs[len(s.pairs)-1]
	s.pairs = s.pairs[:len(s.pairs)-1]
	return last
}
