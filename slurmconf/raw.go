package slurmconf

// rawTopology is a topology as a file has it, with what Slurm tells apart and
// Topology does not: keys that are there and empty, and lines.
type rawTopology struct {
	name       string
	isDefault  bool
	hasDefault bool
	line       int
	kind       string // block, tree, flat, ring, torus3d; empty when none is given
	units      []rawUnit
	sizes      []int64 // nil where BlockSizes is absent
	hasSizes   bool
	sizesLine  int
	yaml       bool
}

// rawUnit is one block or switch.
type rawUnit struct {
	name        string
	nodes       string
	children    string
	hasNodes    bool
	hasChildren bool
	line        int
}

// topology converts to the exported type.
func (r *rawTopology) topology() Topology {
	t := Topology{Name: r.name, Default: r.isDefault}
	switch r.kind {
	case "block":
		t.Block = &BlockTopology{}
		for _, n := range r.sizes {
			t.Block.Sizes = append(t.Block.Sizes, int(n))
		}
		if len(r.units) > 0 {
			t.Block.Blocks = make([]Block, len(r.units))
		}
		for i, u := range r.units {
			t.Block.Blocks[i] = Block{Name: u.name, Nodes: u.nodes}
		}
	case "tree":
		t.Tree = &TreeTopology{}
		if len(r.units) > 0 {
			t.Tree.Switches = make([]Switch, len(r.units))
		}
		for i, u := range r.units {
			t.Tree.Switches[i] = Switch{Name: u.name, Nodes: u.nodes, Children: u.children}
		}
	case "flat":
		t.Flat = true
	}
	return t
}

// reporter collects findings of one file.
type reporter struct {
	file     string
	findings []Finding
}

func (r *reporter) add(s Severity, line int, rule, advice, message string) {
	r.findings = append(r.findings, Finding{File: r.file, Line: line, Rule: rule, Severity: s, Message: message, Advice: advice})
}

func (r *reporter) fatal(line int, rule, advice, message string) {
	r.add(Fatal, line, rule, advice, message)
}

func (r *reporter) warn(line int, rule, advice, message string) {
	r.add(Warning, line, rule, advice, message)
}

// firstError returns the first fatal finding, or the first at all, as an error.
func (r *reporter) firstError() error {
	for _, f := range r.findings {
		if f.Severity == Fatal {
			return &ParseError{File: f.File, Line: f.Line, Message: f.Message + ": " + f.Advice}
		}
	}
	for _, f := range r.findings {
		return &ParseError{File: f.File, Line: f.Line, Message: f.Message + ": " + f.Advice}
	}
	return nil
}
