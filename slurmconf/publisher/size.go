package publisher

import (
	"fmt"
	"math"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// ReasonGresForAll says that gres.conf names no nodes.
const ReasonGresForAll = "GresForAll"

// anySize is the room of a store that takes files of any size.
const anySize = math.MaxInt

// room returns how many bytes the store takes as the publication's files. Files of others there
// count too.
func (l *loop) room(mem *stored) int {
	if l.maxBytes == 0 {
		return anySize
	}
	if mem.set == nil {
		return l.maxBytes
	}
	return l.maxBytes - (sizeOf(mem.set.Files) - sizeOf(mem.set.Own()))
}

// fit refuses files that are larger than the store takes. If all nodes are alike, and
// their names are what is too much, gres.conf goes without them.
func (m *Rendered) fit(p *publication.Cluster, room int) {
	size := sizeOf(m.Files)
	if size <= room {
		return
	}
	o := p.GresOptions()
	if lines, alike := o.ForAll(m.gres, len(m.Plan.Nodes)); alike && len(m.Specs) == len(m.Plan.Nodes) && !m.ByAnnotation {
		text, err := gres.Render(lines, plandoc.Header)
		if err == nil && size-len(m.Files["gres.conf"])+len(text) <= room {
			m.Files["gres.conf"] = string(text)
			m.Digest = plandoc.Digest(m.Files)
			m.Problems = append(m.Problems, topology.Finding{Reason: ReasonGresForAll, Message: fmt.Sprintf("gres.conf names no nodes, because the files would have %d bytes with the names, more than %d; each node of Slurm that reads it must have these GPUs", size, room)})
			return
		}
	}
	m.Refused = "TooLarge"
	advice := "set topology to block or tree, so that there is one topology, set slurmNames so that names end in numbers, which Slurm's host lists fold, or divide the nodes among several publications"
	if !m.ByAnnotation && p.Annotates {
		advice = "set membership: annotation, so that the topology file names no nodes, if slurmd registers them dynamically (slurmd -Z); or " + advice
	}
	m.Message = fmt.Sprintf("the files have %d bytes, and there is room for %d: %s", size, room, advice)
}

// sizeOf counts the bytes of files as the API server does.
func sizeOf(files map[string]string) int {
	n := 0
	for _, text := range files {
		n += len(text)
	}
	return n
}
