package switches

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pods builds a fabric of three tiers: pods of racks with spines of their own, and cores above.
func pods(pods, racks, nodes, rails int) *lab {
	l := newLab()
	for c := range 4 {
		l.leaf(fmt.Sprintf("core%d", c+1))
	}
	for p := range pods {
		for s := range 4 {
			spine := fmt.Sprintf("spine%d-%d", p+1, s+1)
			l.leaf(spine)
			for c := range 4 {
				l.join(spine, fmt.Sprintf("core%d", c+1), 1)
			}
		}
		for r := range racks {
			var leaves []string
			for rail := range rails {
				leaf := fmt.Sprintf("leaf%d-%d-%d", p+1, r+1, rail+1)
				l.leaf(leaf)
				leaves = append(leaves, leaf)
				for s := range 4 {
					l.join(leaf, fmt.Sprintf("spine%d-%d", p+1, s+1), 1)
				}
			}
			for n := range nodes {
				l.host(fmt.Sprintf("p%dr%dn%d", p+1, r+1, n+1), leaves...)
			}
		}
	}
	return l
}

func sortedNodes(r *Result) []string {
	var names []string
	for node := range r.Tiers {
		names = append(names, node)
	}
	slices.Sort(names)
	return names
}

// shape returns the path of each node, with groups numbered in the order of the nodes' names.
func shape(r *Result) map[string]string {
	short := map[string]string{}
	m := map[string]string{}
	for _, node := range sortedNodes(r) {
		var path []string
		for _, name := range r.Tiers[node] {
			if name == "" {
				path = append(path, "-")
				continue
			}
			if short[name] == "" {
				prefix, _, _ := strings.Cut(name, "-")
				n := 1
				for _, s := range short {
					if strings.HasPrefix(s, prefix) {
						n++
					}
				}
				short[name] = fmt.Sprintf("%s%d", prefix, n)
			}
			path = append(path, short[name])
		}
		m[node] = strings.Join(path, " ")
	}
	return m
}

func TestShapes(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func() *lab
		nodes func(l *lab) []Node // default: all hosts
		want  map[string]string
	}{
		{
			name:  "three tiers",
			build: func() *lab { return pods(2, 2, 1, 4) },
			want: map[string]string{
				"p1r1n1": "leaf1 spine1 core1", "p1r2n1": "leaf2 spine1 core1",
				"p2r1n1": "leaf3 spine2 core1", "p2r2n1": "leaf4 spine2 core1",
			},
		},
		{
			name:  "three tiers, and only one rack of each pod has known nodes",
			build: func() *lab { return pods(2, 30, 1, 2) },
			nodes: func(l *lab) []Node { return []Node{l.node("p1r1n1"), l.node("p2r1n1")} },
			want:  map[string]string{"p1r1n1": "leaf1 spine1 core1", "p2r1n1": "leaf2 spine2 core1"},
		},
		{
			name: "one switch",
			build: func() *lab {
				l := newLab()
				l.leaf("a")
				l.host("n1", "a", "a")
				l.host("n2", "a", "a")
				return l
			},
			want: map[string]string{"n1": "leaf1", "n2": "leaf1"},
		},
		{
			name: "leaves joined by cables without a spine",
			build: func() *lab {
				l := newLab()
				l.leaf("a")
				l.leaf("b")
				l.join("a", "b", 4)
				l.host("n1", "a")
				l.host("n2", "b")
				return l
			},
			want: map[string]string{"n1": "leaf1 fabric1", "n2": "leaf2 fabric1"},
		},
		{
			name: "two fabrics",
			build: func() *lab {
				l := newLab()
				for _, f := range []string{"x", "y"} {
					l.leaf(f + "spine")
					for _, leaf := range []string{"1", "2"} {
						l.leaf(f + leaf)
						l.join(f+leaf, f+"spine", 1)
						l.host(f+"n"+leaf, f+leaf)
					}
				}
				return l
			},
			want: map[string]string{"xn1": "leaf1 spine1", "xn2": "leaf2 spine1", "yn1": "leaf3 spine2", "yn2": "leaf4 spine2"},
		},
		{
			name: "two fabrics and one node that is on both",
			build: func() *lab {
				l := newLab()
				for _, f := range []string{"x", "y"} {
					l.leaf(f)
					for n := range 4 {
						l.host(fmt.Sprintf("%sn%d", f, n), f, f)
					}
				}
				l.host("gate", "x", "y", "y")
				return l
			},
			want: map[string]string{"gate": "leaf1", "xn0": "leaf2", "xn1": "leaf2", "xn2": "leaf2", "xn3": "leaf2", "yn0": "leaf1", "yn1": "leaf1", "yn2": "leaf1", "yn3": "leaf1"},
		},
		{
			name: "rails that no cable joins",
			build: func() *lab {
				l := newLab()
				for r := range 2 {
					l.leaf(fmt.Sprintf("spine%d", r))
					for rack := range 2 {
						leaf := fmt.Sprintf("leaf%d-%d", rack, r)
						l.leaf(leaf)
						l.join(leaf, fmt.Sprintf("spine%d", r), 2)
					}
				}
				for rack := range 2 {
					for n := range 2 {
						l.host(fmt.Sprintf("r%dn%d", rack, n), fmt.Sprintf("leaf%d-0", rack), fmt.Sprintf("leaf%d-1", rack))
					}
				}
				return l
			},
			want: map[string]string{"r0n0": "leaf1 spine1", "r0n1": "leaf1 spine1", "r1n0": "leaf2 spine1", "r1n1": "leaf2 spine1"},
		},
		{
			name: "a storage leaf that all nodes are on, beside eight rails",
			build: func() *lab {
				l := newLab()
				l.leaf("storage")
				l.leaf("spine")
				for rack := range 2 {
					leaves := []string{"storage"}
					for rail := range 8 {
						leaf := fmt.Sprintf("leaf%d-%d", rack, rail)
						l.leaf(leaf)
						l.join(leaf, "spine", 1)
						leaves = append(leaves, leaf)
					}
					for n := range 2 {
						l.host(fmt.Sprintf("r%dn%d", rack, n), leaves...)
					}
				}
				return l
			},
			want: map[string]string{"r0n0": "leaf1 spine1", "r0n1": "leaf1 spine1", "r1n0": "leaf2 spine1", "r1n1": "leaf2 spine1"},
		},
		{
			name: "a storage leaf that all nodes are on, beside one rail",
			build: func() *lab {
				l := newLab()
				l.leaf("spine")
				l.leaf("storage")
				l.join("storage", "spine", 1)
				for rack := range 2 {
					leaf := fmt.Sprintf("leaf%d", rack)
					l.leaf(leaf)
					l.join(leaf, "spine", 1)
					for n := range 4 {
						l.host(fmt.Sprintf("r%dn%d", rack, n), leaf, "storage")
					}
				}
				return l
			},
			want: map[string]string{"r0n0": "leaf1 spine1", "r0n1": "leaf1 spine1", "r0n2": "leaf1 spine1", "r0n3": "leaf1 spine1",
				"r1n0": "leaf2 spine1", "r1n1": "leaf2 spine1", "r1n2": "leaf2 spine1", "r1n3": "leaf2 spine1"},
		},
		{
			name: "a node with one cable in another rack",
			build: func() *lab {
				l := racks(2, 3, 4, 2)
				l.host("r1n9", "leaf1-1", "leaf1-2", "leaf1-3", "leaf2-4")
				return l
			},
			want: map[string]string{"r1n1": "leaf1 spine1", "r1n2": "leaf1 spine1", "r1n3": "leaf1 spine1", "r1n9": "leaf1 spine1",
				"r2n1": "leaf2 spine1", "r2n2": "leaf2 spine1", "r2n3": "leaf2 spine1"},
		},
		{
			name: "a node alone on a leaf, beside cables in two racks",
			build: func() *lab {
				l := racks(2, 3, 1, 2)
				l.leaf("odd")
				l.join("odd", "spine1", 1)
				l.host("r1n9", "leaf1-1", "leaf2-1", "odd")
				return l
			},
			want: map[string]string{"r1n1": "leaf1 spine1", "r1n2": "leaf1 spine1", "r1n3": "leaf1 spine1", "r1n9": "leaf1 spine1",
				"r2n1": "leaf2 spine1", "r2n2": "leaf2 spine1", "r2n3": "leaf2 spine1"},
		},
		{
			name: "hosts that are no nodes, on a leaf and on a spine, and the switches' own adapters",
			build: func() *lab {
				l := racks(2, 2, 2, 2)
				for i, s := range []string{"leaf1-1", "spine1", "spine1"} {
					name := fmt.Sprintf("ufm%d mlx5_0", i)
					l.add(adapterKind, name, name)
					l.join(name, s, 1)
				}
				for _, s := range []string{"leaf1-1", "leaf2-1", "spine1", "spine2"} {
					sharp := l.add(adapterKind, "sharp "+s, "Mellanox Technologies Aggregation Node")
					sharp.image = l.boxes[s].image
					l.join("sharp "+s, s, 1)
				}
				return l
			},
			nodes: func(l *lab) []Node {
				return []Node{l.node("r1n1"), l.node("r1n2"), l.node("r2n1"), l.node("r2n2")}
			},
			want: map[string]string{"r1n1": "leaf1 spine1", "r1n2": "leaf1 spine1", "r2n1": "leaf2 spine1", "r2n2": "leaf2 spine1"},
		},
		{
			name: "a node on a spine",
			build: func() *lab {
				l := racks(2, 2, 2, 2)
				l.host("login", "spine1")
				return l
			},
			want: map[string]string{"login": "leaf1 spine1", "r1n1": "leaf2 spine1", "r1n2": "leaf2 spine1", "r2n1": "leaf3 spine1", "r2n2": "leaf3 spine1"},
		},
		{
			name: "fabrics that a router joins",
			build: func() *lab {
				l := newLab()
				l.leaf("a")
				l.leaf("b")
				l.add(routerKind, "router", "router")
				l.join("router", "a", 1)
				l.join("router", "b", 1)
				l.host("n1", "a")
				l.host("n2", "b")
				return l
			},
			want: map[string]string{"n1": "leaf1 fabric1", "n2": "leaf2 fabric1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := test.build()
			nodes := l.nodes()
			if test.nodes != nil {
				nodes = test.nodes(l)
			}
			f, err := Read(strings.NewReader(l.text(newRand(3))))
			if err != nil {
				t.Fatal(err)
			}
			r := Place([]*Fabric{f}, nodes, nil)
			if diff := cmp.Diff(test.want, shape(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			second := Place([]*Fabric{l.fabric()}, again(r, nodes), r.Groups)
			if diff := cmp.Diff(r.Tiers, second.Tiers); diff != "" {
				t.Errorf("the second time (-first +second):\n%s", diff)
			}
			if diff := cmp.Diff(r.Groups, second.Groups); diff != "" {
				t.Errorf("groups the second time (-first +second):\n%s", diff)
			}
		})
	}
}
