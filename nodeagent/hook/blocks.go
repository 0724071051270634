package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// neighbours says whether another node of a job is in the block of this node. A block
// is a clique: nodes of different blocks need no IMEX between them.
type neighbours int

const (
	neighboursUnknown neighbours = iota
	neighboursNone               // each other node of the job is in another block
	neighboursSome               // one is in the block of this node
)

// blockNodes calls yield with the host list of each block of a topology.
type blockNodes func(text []byte, yield func(nodes string)) error

// readNeighbours reads the topology beside slurm.conf. A slurmd without files of its own
// gets slurm.conf and the topology from slurmctld, into one directory. Slurm reads
// topology.conf only if there is no topology.yaml. Whatever cannot be read is unknown.
func readNeighbours(slurmConf, node, nodeList string) neighbours {
	if slurmConf == "" {
		return neighboursUnknown
	}
	blocks := yamlBlocks
	text, err := atomicfile.Read(filepath.Join(filepath.Dir(slurmConf), "topology.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		blocks = confBlocks
		text, err = atomicfile.Read(filepath.Join(filepath.Dir(slurmConf), "topology.conf"))
	}
	if err != nil {
		return neighboursUnknown
	}
	return findNeighbours(text, blocks, node, nodeList)
}

// findNeighbours looks for a job's nodes in the blocks of a topology. They are unknown
// if the blocks lack this node, or another node of the job.
func findNeighbours(text []byte, blocks blockNodes, node, nodeList string) neighbours {
	placed := map[string]bool{} // the job's nodes: whether a block has the node
	if err := hostlist.Walk(nodeList, func(name []byte) { placed[string(name)] = false }); err != nil {
		return neighboursUnknown
	}
	if _, ok := placed[node]; !ok {
		return neighboursUnknown
	}
	some := false
	var bad error
	err := blocks(text, func(nodes string) {
		own, others := false, false
		bad = errors.Join(bad, hostlist.Walk(nodes, func(name []byte) {
			if _, ok := placed[string(name)]; ok {
				placed[string(name)] = true
				own, others = own || string(name) == node, others || string(name) != node
			}
		}))
		some = some || own && others
	})
	if err != nil || bad != nil {
		return neighboursUnknown
	}
	for _, is := range placed {
		if !is && !some {
			return neighboursUnknown
		}
	}
	if some && placed[node] {
		return neighboursSome
	}
	return neighboursNone
}

// confBlocks reads the lines of blocks of topology.conf, and of `scontrol show topology`.
func confBlocks(text []byte, yield func(nodes string)) error {
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		isBlock, nodes := false, ""
		for word := range bytes.FieldsSeq(line) {
			key, value, _ := strings.Cut(string(word), "=")
			switch {
			case strings.EqualFold(key, "BlockName"):
				isBlock = true
			case strings.EqualFold(key, "Nodes"):
				nodes = strings.Trim(value, `"`)
			}
		}
		if isBlock && nodes != "" {
			yield(nodes)
		}
	}
	return nil
}

// yamlBlocks reads the blocks of a topology.yaml that is written with one key on a line,
// as Slurm's manual and Quoin write it. Other forms of YAML are errors. A value that goes
// on in the next line lacks names, which are unknown then.
func yamlBlocks(text []byte, yield func(nodes string)) error {
	inBlocks := false
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimLeft(line, " -"), ":")
		if value = strings.TrimSpace(value); !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if strings.HasPrefix(value, "#") {
			value = ""
		}
		if value != "" && strings.ContainsAny(value[:1], "{[&*!|>@`%") {
			if key == "block_sizes" {
				continue
			}
			return fmt.Errorf("key %s: want a plain value", key)
		}
		switch {
		case key == "blocks":
			inBlocks = true
		case key == "nodes" && inBlocks && value != "":
			yield(yamlScalar(value))
		case key != "block" && key != "nodes" && value == "", key == "topology":
			inBlocks = false
		}
	}
	return nil
}

// yamlScalar is the text of a value without its quotes or a comment after it.
func yamlScalar(value string) string {
	if quote := value[:1]; quote == `"` || quote == "'" {
		text, _, _ := strings.Cut(value[1:], quote)
		return text
	}
	text, _, _ := strings.Cut(value, " #")
	return strings.TrimSpace(text)
}
