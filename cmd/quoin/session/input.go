package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
)

// IsDirectory reports whether there is a directory of this name.
func IsDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// OpenInput opens a file with the output of a command, or standard input if name is a dash.
// shown names it in errors.
func OpenInput(stdin io.Reader, name, command string) (in io.ReadCloser, shown string, err error) {
	if name == "-" {
		return io.NopCloser(stdin), "standard input", nil
	}
	if in, err = os.Open(name); IsDirectory(name) {
		err = syscall.EISDIR
	}
	return in, name, show.Unopened(err, name, "a file with the output of "+command)
}

// ReadNodes reads a file with kubectl's list of nodes and of what belongs to them.
func (s *Session) ReadNodes(stdin io.Reader, name string) (*inputs.Snapshot, error) {
	in, name, err := OpenInput(stdin, name, "kubectl get nodes -o json")
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer func() { _ = in.Close() }()
	return s.readNodes(name, in)
}

// readNodes reads nodes and what belongs to them. Of the Nodes' labels and annotations it keeps
// those that the rules of the publications look at. name names the text in errors.
func (s *Session) readNodes(name string, in io.Reader) (*inputs.Snapshot, error) {
	rules := s.rules()
	return (&inputs.ListReader{Keep: inputs.KeysOf(rules...), Pods: inputs.NamingPodsOf(rules...), Slices: kube.ReadSlice}).Read(name, in)
}

// rules are those of all publications.
func (s *Session) rules() (rules []*inputs.Rules) {
	for _, p := range s.Config.Clusters() {
		rules = append(rules, &p.Rules)
	}
	return rules
}

// namingPods are the pods beside Slinky's by which publications name nodes.
func (s *Session) namingPods() []inputs.NamingPods { return inputs.NamingPodsOf(s.rules()...) }

// ReadDomain reads the output of computedomain.ListCommand from a file, - for standard input. Without
// a file it reads the same from the cluster. name names what was read, for errors.
func (s *Session) ReadDomain(ctx context.Context, stdin io.Reader, file string, each func(kind string, object []byte) error) (snap *inputs.Snapshot, name string, err error) {
	var list io.ReadCloser
	if file != "" {
		list, name, err = OpenInput(stdin, file, computedomain.ListCommand)
	} else {
		name = "the cluster"
		list, err = openLists(ctx, s.Cluster, domainLists)
	}
	if err != nil {
		return nil, name, fmt.Errorf("read the cluster's objects: %w", err)
	}
	defer func() { _ = list.Close() }()
	in := bufio.NewReader(list)
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return nil, name, fmt.Errorf("%s: empty: want the output of %s: kubectl prints nothing if a kind is missing; are the CRDs of NVIDIA's DRA driver there? older releases of the driver have no computedomaincliques",
			name, computedomain.ListCommand)
	}
	reader := inputs.ListReader{Command: computedomain.ListCommand, Keep: inputs.KeysOf(), Slices: kube.ReadSlice, Each: each}
	snap, err = reader.Read(name, in)
	return snap, name, cause(err)
}
