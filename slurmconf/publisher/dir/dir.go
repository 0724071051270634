// Package dir is the store of a site without Kubernetes: a directory with reports, node
// labels, annotations and publications. Every file is written by rename.
package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/gofrs/flock"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// The folders of a directory store, beside that of the reports.
const (
	nodesFolder       = "nodes"       // <node>.json: {"labels":{},"annotations":{}}, by choice
	annotationsFolder = "annotations" // <node>: the spec annotation
	publishedFolder   = "published"   // <namespace>/<configMap>/
	publicationFile   = "publication.json"
)

// reasonNodeUnreadable is why a node's labels and annotations are not known.
const reasonNodeUnreadable = "NodeUnreadable"

// Store keeps reports and publications in a directory.
type Store struct {
	// Rescan is the time between two looks at all files.
	Rescan time.Duration

	dir     string
	changes chan struct{}
	reports *reportdir.Reader
	fabrics *cables.Reader
}

// New returns a store in dir, which reads the texts of fabrics too. Nothing is read or written before Run.
func New(dir string, fabricFiles ...string) *Store {
	return &Store{dir: dir, Rescan: 5 * time.Second, changes: make(chan struct{}, 1), reports: reportdir.NewReader(filepath.Join(dir, reportdir.Folder)), fabrics: cables.NewReader(fabricFiles, nil)}
}

// Run watches the reports, the stored plans and the publications until ctx ends, by fsnotify, and by
// a rescan where that sees nothing, such as on network file systems. So an approval is seen at once.
func (s *Store) Run(ctx context.Context) error {
	folders := []string{reportdir.Folder, nodesFolder, plansFolder, publishedFolder}
	for _, d := range folders {
		if err := reportdir.MakeFolder(s.dir, d); err != nil {
			return err
		}
	}
	watcher, err := fsnotify.NewWatcher()
	var events chan fsnotify.Event
	var lost chan error
	if err == nil {
		defer watcher.Close()
		events, lost = watcher.Events, watcher.Errors
		for _, d := range folders {
			_ = watcher.Add(filepath.Join(s.dir, d)) // the rescan sees what this misses
		}
		s.watchPublished(watcher)
	}
	tick := time.NewTicker(s.Rescan)
	defer tick.Stop()
	for was := s.fingerprint(); ; {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if e.Has(fsnotify.Create) && strings.HasPrefix(e.Name, filepath.Join(s.dir, publishedFolder)) {
				s.watchPublished(watcher)
			}
			again.Notify(s.changes)
		case <-lost: // such as by an overflow; unread, it would stop the events for good
			again.Notify(s.changes)
		case <-tick.C:
			if is := s.fingerprint(); is != was {
				was = is
				again.Notify(s.changes)
			}
		}
	}
}

// watchPublished watches the folder of each publication. A folder that is watched already stays so.
func (s *Store) watchPublished(watcher *fsnotify.Watcher) {
	_ = filepath.WalkDir(filepath.Join(s.dir, publishedFolder), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = watcher.Add(path) // the rescan sees what this misses
		}
		return nil
	})
}

// fingerprint sums up names, sizes and times of all files that a pass reads. The pass
// reports files that cannot be read.
func (s *Store) fingerprint() uint64 {
	sum := fnv.New64a()
	for _, d := range []string{reportdir.Folder, nodesFolder, annotationsFolder, plansFolder, publishedFolder} {
		_ = filepath.WalkDir(filepath.Join(s.dir, d), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				if info, err := e.Info(); err == nil {
					fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
				}
			}
			return nil
		})
	}
	fmt.Fprint(sum, s.fabrics.Stamp())
	return sum.Sum64()
}

// Changes gets a value after a change. Several changes may give one value.
func (s *Store) Changes() <-chan struct{} { return s.changes }

// Lead waits until this process alone may publish into the directory, and then runs lead.
// The lock of a process that dies is free at once.
func (s *Store) Lead(ctx context.Context, lead func(context.Context) error) error {
	lock := flock.New(filepath.Join(s.dir, "publisher.lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("lock store: %w", err)
	}
	defer lock.Unlock()
	return lead(ctx)
}

// Ready asks whether the directory can be read.
func (s *Store) Ready(context.Context) error {
	if _, err := os.ReadDir(s.dir); err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	return nil
}

// Snapshot reads what there is. Reports are parsed again only when their file changed.
func (s *Store) Snapshot(context.Context) (*inputs.Snapshot, error) {
	said, err := listed(filepath.Join(s.dir, nodesFolder))
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	annotated, err := listed(filepath.Join(s.dir, annotationsFolder))
	if err != nil {
		return nil, fmt.Errorf("read annotations: %w", err)
	}
	snap := &inputs.Snapshot{Reports: map[string]*topology.Node{}, Fabrics: s.fabrics.Read()}
	err = s.reports.Read(func(name string, report *topology.Node, err error) {
		snap.AddReport(name, report, err)
		n := inputs.Node{Name: name, Annotations: map[string]string{}}
		if err := s.addNode(&n, said[name+".json"], annotated[name]); err != nil {
			snap.Problems = append(snap.Problems, topology.Finding{Subject: topology.Subject{Node: name}, Reason: reasonNodeUnreadable, Message: err.Error()})
		}
		snap.Nodes = append(snap.Nodes, n)
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// listed returns the names of the files in a folder. A folder that does not exist has none.
func listed(folder string) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, nil
}

// addNode adds a node's labels, if somebody wrote them, and our annotation.
func (s *Store) addNode(n *inputs.Node, said, annotated bool) error {
	if said {
		data, err := os.ReadFile(filepath.Join(s.dir, nodesFolder, n.Name+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var meta struct{ Labels, Annotations map[string]string }
		if err == nil {
			if err = json.Unmarshal(data, &meta); err != nil {
				return fmt.Errorf("%s/%s.json: %w", nodesFolder, n.Name, err)
			}
		}
		n.Labels = meta.Labels
		maps.Copy(n.Annotations, meta.Annotations)
	}
	if annotated {
		spec, err := os.ReadFile(filepath.Join(s.dir, annotationsFolder, n.Name))
		if err == nil {
			n.Annotations[plandoc.SpecAnnotation] = strings.TrimSpace(string(spec))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Folder is where the files of a publication are.
func (s *Store) Folder(p plandoc.Location) string {
	return filepath.Join(s.dir, publishedFolder, p.Namespace, p.Name)
}

// Load returns what is published, or nil if nothing is.
func (s *Store) Load(_ context.Context, p plandoc.Location) (*plandoc.Published, error) {
	out := &plandoc.Published{Files: map[string]string{}, Annotations: map[string]string{}, Version: version(s.notes(p))}
	entries, err := os.ReadDir(s.Folder(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read publication: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.Folder(p), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read publication: %w", err)
		}
		if e.Name() != publicationFile {
			out.Files[e.Name()] = string(data)
		} else if err := json.Unmarshal(data, &out.Annotations); err != nil {
			return nil, fmt.Errorf("read publication %s: %w; restore or remove it", s.notes(p), err)
		}
	}
	if len(out.Files) == 0 && len(out.Annotations) == 0 {
		return nil, nil
	}
	return out, nil
}

// notes is the file with the annotations of a publication.
func (s *Store) notes(p plandoc.Location) string {
	return filepath.Join(s.Folder(p), publicationFile)
}

// Save writes a publication: file by file, and then the annotations. If the publisher dies
// after the first file, the next publisher sees that the files differ from the stored plan. What
// people have asked for since Load is not overwritten: that is an error.
func (s *Store) Save(_ context.Context, p plandoc.Location, out *plandoc.Published) (string, error) {
	place := s.Folder(p)
	if version(s.notes(p)) != out.Version {
		return "", fmt.Errorf("write publication: somebody has changed %s since it was read", s.notes(p))
	}
	if err := reportdir.MakeFolder(s.dir, publishedFolder, p.Namespace, p.Name); err != nil {
		return "", fmt.Errorf("write publication: %w", err)
	}
	write := func(name string, data []byte) error {
		path := filepath.Join(place, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
			return nil
		}
		if err := atomicfile.WriteDurably(path, data, 0o644); err != nil {
			return fmt.Errorf("write publication: %w", err)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(out.Files)) {
		if err := write(name, []byte(out.Files[name])); err != nil {
			return "", err
		}
	}
	for _, name := range plandoc.OwnFiles {
		if _, ok := out.Files[name]; !ok { // an older format's file would still be read
			if err := os.Remove(filepath.Join(place, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("write publication: %w", err)
			}
		}
	}
	notes, err := json.MarshalIndent(out.Annotations, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write publication: %w", err)
	}
	err = write(publicationFile, append(notes, '\n'))
	return version(s.notes(p)), err
}

// Mark writes the spec annotation of a node, or removes it if it is empty. A directory has no
// other annotations and no labels: labels need Kubernetes.
func (s *Store) Mark(_ context.Context, n *inputs.Node, change inputs.Marks) error {
	path := filepath.Join(s.dir, annotationsFolder, n.Name)
	spec, changes := change.Annotations[plandoc.SpecAnnotation]
	switch {
	case !changes:
		return nil
	case spec == "":
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("annotate node %s: %w", n.Name, err)
		}
		return nil
	}
	if err := reportdir.MakeFolder(s.dir, annotationsFolder); err != nil {
		return fmt.Errorf("annotate node %s: %w", n.Name, err)
	}
	if err := atomicfile.WriteDurably(path, []byte(spec+"\n"), 0o644); err != nil {
		return fmt.Errorf("annotate node %s: %w", n.Name, err)
	}
	return nil
}
