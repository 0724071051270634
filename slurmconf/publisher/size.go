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

// fit refuses files that are larger than the store takes. If the names of nodes are what is too
// much, gres.conf goes without them where that is right for all nodes.
func (m *Rendered) fit(p *publication.Cluster, room int) {
	size := sizeOf(m.Files)
	if size <= room {
		return
	}
	if lines, detect, why := m.withoutNames(p); why != "" {
		text, err := gres.Render(lines, plandoc.Header)
		if err == nil && size-len(m.Files["gres.conf"])+len(text) <= room {
			m.Files["gres.conf"], m.detect = string(text), detect
			m.Digest = plandoc.Digest(m.Files)
			m.Problems = append(m.Problems, topology.Finding{Reason: ReasonGresForAll, Message: fmt.Sprintf("gres.conf names no nodes, because the files would have %d bytes with the names, more than %d; %s", size, room, why)})
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

// withoutNames returns lines of gres.conf without names, and what they mean for the nodes. That is
// empty if the lines must name nodes. A node without GPUs may read a line that detects GPUs, so
// such a line goes before listed devices.
func (m *Rendered) withoutNames(p *publication.Cluster) (lines []gres.Line, detect, why string) {
	o := p.GresOptions()
	if m.ByAnnotation {
		return nil, "", ""
	}
	if line, ok := o.Detected(m.gres); ok {
		return []gres.Line{line}, line.AutoDetect, "each slurmd detects its GPUs. Slurm drains a node that loses one"
	}
	if lines, alike := o.ForAll(m.gres, len(m.Plan.Nodes)); alike && len(m.Specs) == len(m.Plan.Nodes) {
		return lines, "", "each node of Slurm that reads it must have these GPUs"
	}
	return nil, "", ""
}

// countedLines are the lines of gres.conf by node as they count for maxChange. From listed devices to
// detected ones is a change of every node: nobody knows yet whether its slurmd finds them.
func (m *Rendered) countedLines(old *topology.Plan) []gres.Line {
	if m.detect == "" || old == nil || old.Detect != "" {
		return m.gres
	}
	lines := make([]gres.Line, len(m.gres))
	for i := range lines {
		lines[i] = gres.Line{Nodes: m.gres[i].Nodes, AutoDetect: m.detect}
	}
	return lines
}

// sizeOf counts the bytes of files as the API server does.
func sizeOf(files map[string]string) int {
	n := 0
	for _, text := range files {
		n += len(text)
	}
	return n
}
