package slurmconf

import (
	"fmt"
	"strconv"
	"strings"
)

// RenderConf writes topology.conf: one line per block and then BlockSizes, or one
// line per switch. A header becomes comment lines. A flat topology has no such file
// and is an error.
func RenderConf(t Topology, header string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("write topology.conf: %w", err)
	}
	var b strings.Builder
	commentLines(&b, header)
	switch {
	case t.Block != nil:
		for _, block := range t.Block.Blocks {
			writePair(&b, "BlockName=", block.Name)
			writePair(&b, " Nodes=", block.Nodes)
			b.WriteByte('\n')
		}
		if len(t.Block.Sizes) > 0 {
			b.WriteString("BlockSizes=")
			b.WriteString(joinSizes(t.Block.Sizes))
			b.WriteByte('\n')
		}
	case t.Tree != nil:
		for _, s := range t.Tree.Switches {
			writePair(&b, "SwitchName=", s.Name)
			writePair(&b, " Nodes=", s.Nodes)
			writePair(&b, " Switches=", s.Children)
			b.WriteByte('\n')
		}
	default:
		return nil, fmt.Errorf("write topology.conf: topology %q is flat: leave the file out and set TopologyPlugin=topology/flat", t.Name)
	}
	return []byte(b.String()), nil
}

func writePair(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString(key)
		b.WriteString(value)
	}
}

func joinSizes(sizes []int) string {
	words := make([]string, len(sizes))
	for i, s := range sizes {
		words[i] = strconv.Itoa(s)
	}
	return strings.Join(words, ",")
}

// ParseConf reads topology.conf. name stands for the file in messages. The topology's
// Name is "default", as Slurm calls it. Errors are *ParseError. ParseConf takes what
// any release loads; package lint says which release does.
func ParseConf(name string, data []byte) (Topology, error) {
	lines, err := scanWhole(name, data)
	if err != nil {
		return Topology{}, err
	}
	if len(lines) == 0 {
		return Topology{}, &ParseError{File: name, Line: 1, Message: "no blocks and no switches: want lines of BlockName= or SwitchName="}
	}
	t := Topology{Name: "default", Default: true}
	if strings.EqualFold(lines[0].Key, "SwitchName") {
		t.Tree = &TreeTopology{Switches: make([]Switch, 0, len(lines))}
	} else {
		t.Block = &BlockTopology{Blocks: make([]Block, 0, len(lines))}
	}
	for i := range lines {
		if err := t.addConfLine(name, &lines[i]); err != nil {
			return Topology{}, err
		}
	}
	return t, nil
}

func (t *Topology) addConfLine(file string, l *Line) *ParseError {
	var err *ParseError
	switch {
	case t.Block != nil && strings.EqualFold(l.Key, "BlockName"):
		b := Block{Name: l.Value}
		err = l.eachAttr(file, "Nodes", func(_ int, v string) { b.Nodes = v })
		t.Block.Blocks = append(t.Block.Blocks, b)
	case t.Block != nil && strings.EqualFold(l.Key, "BlockSizes"):
		if err = l.eachAttr(file, "", nil); err == nil {
			t.Block.Sizes, err = parseSizes(file, l.Number, l.Value)
		}
	case t.Tree != nil && strings.EqualFold(l.Key, "SwitchName"):
		s := Switch{Name: l.Value}
		err = l.eachAttr(file, "Nodes,Switches,LinkSpeed", func(i int, v string) {
			switch i {
			case 0:
				s.Nodes = v
			case 1:
				s.Children = v
			}
		})
		if err == nil && s.Nodes != "" && s.Children != "" {
			err = &ParseError{File: file, Line: l.Number, Key: "SwitchName=" + s.Name, Message: "has both Nodes and Switches: want one of them"}
		}
		t.Tree.Switches = append(t.Tree.Switches, s)
	default:
		allowed := "BlockName and BlockSizes, because the file begins with blocks"
		if t.Tree != nil {
			allowed = "SwitchName, because the file begins with switches"
		}
		err = &ParseError{File: file, Line: l.Number, Key: l.Key, Message: "not allowed here: want " + allowed}
	}
	return err
}

// eachAttr calls set with the index of each key among the allowed ones,
// separated by commas, and its value.
func (l *Line) eachAttr(file, allowed string, set func(i int, value string)) *ParseError {
	for _, a := range l.Attrs {
		i, ok := 0, false
		for word := range strings.SplitSeq(allowed, ",") {
			if strings.EqualFold(word, a.Key) {
				ok = true
				break
			}
			i++
		}
		if !ok {
			want := "want " + strings.ReplaceAll(allowed, ",", ", ")
			if allowed == "" {
				want = "want nothing more on this line"
			}
			return &ParseError{File: file, Line: l.Number, Key: a.Key, Message: "unknown key after " + l.Key + ": " + want}
		}
		if a.Value == "" {
			return &ParseError{File: file, Line: l.Number, Key: a.Key, Message: "empty value: leave the key out or give it a value"}
		}
		set(i, a.Value)
	}
	return nil
}

// parseSizes reads BlockSizes.
func parseSizes(file string, line int, value string) ([]int, *ParseError) {
	var sizes []int
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 31)
		if err != nil || n == 0 {
			return nil, &ParseError{File: file, Line: line, Key: "BlockSizes", Message: fmt.Sprintf("%q is no size: want numbers of 1 or more, the base block size first, each further one base x 2^k, such as 18,36", word)}
		}
		sizes = append(sizes, int(n))
	}
	return sizes, nil
}
