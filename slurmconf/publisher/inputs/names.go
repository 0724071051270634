package inputs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// namer says how Slurm calls a node.
type namer struct {
	of func(*Node) string
	// from is where the name comes from: a label, an annotation or a pattern. It is empty
	// for the node's own name.
	from string
	// labels and annotations are the keys of Nodes that it looks at.
	labels, annotations []string
}

// ownNamer calls a node by its own name, or a part of it. OverrideHint looks at the annotation.
func ownNamer(of func(*Node) string) namer {
	return namer{of: of, annotations: []string{annotationHostname}}
}

// fullNamer calls a node by its own name.
var fullNamer = ownNamer(func(n *Node) string { return n.Name })

// newNamer reads slurmNames: short, full, label:KEY, annotation:KEY or a pattern.
func newNamer(how string) (namer, error) {
	kind, key, _ := strings.Cut(how, ":")
	switch {
	case isPattern(how):
		of, err := patternNamer(how)
		return namer{of: of, from: how}, err
	case how == "short":
		return ownNamer(func(n *Node) string { return hostlist.ShortName(n.Name) }), nil
	case how == "full":
		return fullNamer, nil
	case key == "" || kind != "label" && kind != "annotation":
		return namer{}, fmt.Errorf("%q: want short, full, label:KEY, annotation:KEY, s/REGEXP/REPLACEMENT/, pod:SELECTOR, slinky, slinky:CONTROLLER or slinky:NAMESPACE/CONTROLLER", how)
	case !isLabelKey(strings.ToLower(key)):
		return namer{}, fmt.Errorf("%q: want a key after the colon that is %s", how, wantedKey)
	case kind == "label":
		return namer{of: func(n *Node) string { return n.Labels[key] }, from: "label " + key, labels: []string{key}}, nil
	}
	return namer{of: func(n *Node) string { return n.Annotations[key] }, from: "annotation " + key, annotations: []string{key}}, nil
}

// isPattern reports whether slurmNames is s/REGEXP/REPLACEMENT/.
func isPattern(how string) bool { return strings.HasPrefix(how, "s/") }

// reference is how a replacement names a group of the expression.
var reference = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)\})`)

// patternNamer returns the function that makes a Slurm name from a node's name. The
// expression must match the whole name. $1 in the replacement stands for the first group.
// The function returns "" for a name that does not match.
func patternNamer(how string) (func(*Node) string, error) {
	parts := strings.Split(strings.TrimPrefix(how, "s/"), "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] != "" {
		return nil, fmt.Errorf("%q: want s/REGEXP/REPLACEMENT/, such as s/ip-(.+)\\.internal/node-$1/", how)
	}
	re, err := regexp.Compile("^(?:" + parts[0] + ")$")
	if err != nil {
		return nil, fmt.Errorf("%q: want a regular expression of RE2: %w", parts[0], err)
	}
	for _, m := range reference.FindAllStringSubmatch(parts[1], -1) {
		group := m[1] + m[2]
		if n, err := strconv.Atoi(group); err == nil && n <= re.NumSubexp() || err != nil && re.SubexpIndex(group) >= 0 {
			continue
		}
		return nil, fmt.Errorf("%q: the expression has no group %q; where letters follow a number write ${1}", parts[1], group)
	}
	return func(n *Node) string {
		at := re.FindStringSubmatchIndex(n.Name)
		if at == nil {
			return ""
		}
		return string(re.ExpandString(nil, parts[1], n.Name, at))
	}, nil
}
