package dcgm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	topologyFolder = "topology"
	// maxTopology bounds what the hook copies, in bytes.
	maxTopology = 4 << 20
)

// topologyKinds are the endings of Slurm's topology files, the one that it
// prefers first.
var topologyKinds = []string{".yaml", ".conf"}

// CopyTopology copies the topology.yaml and topology.conf beside slurm.conf into
// the run directory under the cluster's name, where they differ in size or time
// from the copy. A copy whose file is gone goes too.
func CopyTopology(runDir, slurmConf, cluster string) error {
	if !isClusterName(cluster) || slurmConf == "" {
		return nil
	}
	var failed error
	for _, kind := range topologyKinds {
		from := filepath.Join(filepath.Dir(slurmConf), "topology"+kind)
		to := filepath.Join(runDir, topologyFolder, cluster+kind)
		if err := mirror(from, to); err != nil {
			failed = errors.Join(failed, fmt.Errorf("copy %s: %w", from, err))
		}
	}
	return failed
}

func mirror(from, to string) error {
	is, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	} else if err != nil {
		return err
	}
	if is.Size() > maxTopology {
		return fmt.Errorf("%d bytes, want %d at most", is.Size(), maxTopology)
	}
	if was, err := os.Stat(to); err == nil && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()) {
		return nil
	}
	data, at, err := readFileTime(from)
	if err != nil {
		return err
	}
	folder := filepath.Dir(to)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	fresh, err := stage(folder, to, data)
	if err != nil {
		return err
	}
	if err := os.Chtimes(fresh, time.Time{}, at); err != nil {
		_ = os.Remove(fresh) // it is of no use
		return err
	}
	return put(fresh, to)
}

// ReadTopology reads the hook's copy of the topology that Slurm uses: the YAML
// where there is one. name is topology.yaml or topology.conf; an error that is
// fs.ErrNotExist means that there is none.
func ReadTopology(runDir, cluster string) (name string, data []byte, err error) {
	if !isClusterName(cluster) {
		return "", nil, fmt.Errorf("read topology of cluster %q: %w", cluster, fs.ErrNotExist)
	}
	for _, kind := range topologyKinds {
		data, err = readFile(filepath.Join(runDir, topologyFolder, cluster+kind))
		if !errors.Is(err, fs.ErrNotExist) {
			name = "topology" + kind
			break
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("read topology: %w", err)
	}
	return name, data, nil
}
