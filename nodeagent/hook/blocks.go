package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// block is a block of a topology, with its nodes as a host list. Blocks of different
// topologies may have the same nodes.
type block struct{ topology, name, nodes string }

// blocksOf calls yield with each block that a text names.
type blocksOf func(text []byte, yield func(block)) error

// readTopology reads the topology beside slurm.conf. A slurmd without files of its own
// gets slurm.conf and the topology from slurmctld, into one directory. Slurm reads
// topology.conf only if there is no topology.yaml.
func readTopology(slurmConf string) (text []byte, blocks blocksOf, ok bool) {
	if slurmConf == "" {
		return nil, nil, false
	}
	blocks = yamlBlocks
	text, err := atomicfile.Read(filepath.Join(filepath.Dir(slurmConf), "topology.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		blocks = confBlocks
		text, err = atomicfile.Read(filepath.Join(filepath.Dir(slurmConf), "topology.conf"))
	}
	return text, blocks, err == nil
}

// readBlocks reads from the same file in which blocks a job's nodes are.
func readBlocks(slurmConf, nodeList string) (found []rundir.JobBlock, known bool) {
	text, blocks, ok := readTopology(slurmConf)
	if !ok {
		return nil, false
	}
	return findBlocks(text, blocks, nodeList)
}

// findBlocks looks for the blocks of a job's nodes, in the order of the text. They are not
// known if no topology of the text has all the nodes, or if two have: which of them the
// job's partition uses is not said there.
func findBlocks(text []byte, blocks blocksOf, nodeList string) (found []rundir.JobBlock, known bool) {
	wanted := map[string]bool{}
	if err := hostlist.Walk(nodeList, func(name []byte) { wanted[string(name)] = true }); err != nil {
		return nil, false
	}
	byTopology, nodes := map[string][]rundir.JobBlock{}, map[string]int{}
	var bad error
	err := blocks(text, func(b block) {
		var own []string
		bad = errors.Join(bad, hostlist.Walk(b.nodes, func(name []byte) {
			if wanted[string(name)] {
				own = append(own, string(name))
			}
		}))
		if own != nil {
			byTopology[b.topology] = append(byTopology[b.topology], rundir.JobBlock{Name: b.name, Nodes: hostlist.Compress(own)})
			nodes[b.topology] += len(own)
		}
	})
	if err != nil || bad != nil {
		return nil, false
	}
	for name, count := range nodes {
		switch {
		case count != len(wanted):
		case known:
			return nil, false
		default:
			found, known = byTopology[name], true
		}
	}
	return found, known
}

// confBlocks reads the lines of blocks of topology.conf, and of `scontrol show topology`.
func confBlocks(text []byte, yield func(block)) error {
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		var b block
		for word := range bytes.FieldsSeq(line) {
			key, value, _ := strings.Cut(string(word), "=")
			switch {
			case strings.EqualFold(key, "BlockName"):
				b.name = value
			case strings.EqualFold(key, "Nodes"):
				b.nodes = strings.Trim(value, `"`)
			}
		}
		if b.name != "" && b.nodes != "" {
			yield(b)
		}
	}
	return nil
}

// yamlBlocks reads the blocks of a topology.yaml that is written with one key on a line,
// as Slurm's manual and Quoin write it. Other forms of YAML are errors. A value that goes
// on in the next line lacks names, which are unknown then.
func yamlBlocks(text []byte, yield func(block)) error {
	inBlocks := false
	var b block
	end := func() {
		if b.nodes != "" {
			yield(b)
		}
		b.name, b.nodes = "", ""
	}
	defer end()
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "-") {
			end()
		}
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
			b.nodes = yamlScalar(value)
		case key == "block" && inBlocks && value != "":
			b.name = yamlScalar(value)
		case key == "topology":
			inBlocks = false
			b.topology = yamlScalar(value + " ")
		case key != "block" && key != "nodes" && value == "":
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
