package publisher

import (
	"fmt"
	"math"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// anySize is the room of a store that takes files of any size.
const anySize = math.MaxInt

// room returns how many bytes the store takes as the publication's files. Files of others there
// count too.
func (l *loop) room(mem *stored) int {
	if l.options.MaxBytes == 0 {
		return anySize
	}
	if mem.set == nil {
		return l.options.MaxBytes
	}
	return l.options.MaxBytes - (sizeOf(mem.set.Files) - sizeOf(mem.set.Own()))
}

// limitSize refuses files that are larger than the store takes.
func (m *Rendered) limitSize(p *publication.Cluster, room int) {
	size := sizeOf(m.Files)
	if size <= room {
		return
	}
	m.Refused = reasonTooLarge
	advice := "set topology to block or tree, so that there is one topology, set slurmNames so that names end in numbers, which Slurm's host lists fold, or divide the nodes among several publications"
	if !m.FilePlan.ByAnnotation && p.Annotates {
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
