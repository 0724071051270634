package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// plansFolder has the stored plans: <publication>.json.
const plansFolder = "plans"

// PlanFile is where the plan of a publication is.
func (s *Store) PlanFile(publication string) string {
	return filepath.Join(s.dir, plansFolder, publication+".json")
}

// LoadPlan returns the stored plan of the publication, or nil if there is none.
func (s *Store) LoadPlan(_ context.Context, publication string) (*plandoc.Document, error) {
	path := s.PlanFile(publication)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	d, err := plandoc.Unmarshal(text)
	if err == nil && d.Publication != publication {
		err = fmt.Errorf("%w: it is that of publication %q", plandoc.ErrUnreadable, d.Publication)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.Version = s.planVersion(publication)
	return d, nil
}

// Stored returns what is stored of each publication that has a plan.
func (s *Store) Stored(ctx context.Context) (map[string]plandoc.Stored, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, plansFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	out := make(map[string]plandoc.Stored, len(entries))
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		is := plandoc.Stored{Files: "a folder that its plan does not name", RemovePlan: fmt.Sprintf("rm %q", s.PlanFile(name))}
		if d, err := s.LoadPlan(ctx, name); err == nil && d != nil {
			if at, ok := plandoc.ReadLocation(d.Place); ok {
				is.Place, is.Files = at, s.Folder(at)
				is.RemoveFiles = fmt.Sprintf("rm -r %q", is.Files)
			}
		}
		out[name] = is
	}
	return out, nil
}

func (s *Store) planVersion(publication string) string { return version(s.PlanFile(publication)) }

// version is the size and the time of a file, or "" if there is none.
func version(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}

// PlanChanged reports whether the file of a plan is another one than that of the version.
func (s *Store) PlanChanged(publication, version string) bool {
	return s.planVersion(publication) != version
}

// SavePlan stores the plan.
func (s *Store) SavePlan(_ context.Context, d *plandoc.Document) (version string, err error) {
	text, err := plandoc.Marshal(d)
	if err != nil {
		return "", err
	}
	path := s.PlanFile(d.Publication)
	if err := reportdir.MakeFolder(s.dir, plansFolder); err != nil {
		return "", fmt.Errorf("write plan: %w", err)
	}
	if err := atomicfile.WriteDurably(path, text, 0o644); err != nil {
		return "", fmt.Errorf("write plan: %w", err)
	}
	return s.planVersion(d.Publication), nil
}

// Ask adds annotations to a publication, as people do. The publisher does what they ask for.
func (s *Store) Ask(ctx context.Context, p plandoc.Location, annotations map[string]string) error {
	set, err := s.Load(ctx, p)
	if err == nil && set == nil {
		err = fmt.Errorf("%s has no files yet", s.Folder(p))
	}
	if err != nil {
		return err
	}
	maps.Copy(set.Annotations, annotations)
	notes, err := json.MarshalIndent(set.Annotations, "", "  ")
	if err != nil {
		return fmt.Errorf("write annotations: %w", err)
	}
	if err := atomicfile.WriteDurably(filepath.Join(s.Folder(p), publicationFile), append(notes, '\n'), 0o644); err != nil {
		return fmt.Errorf("write annotations: %w", err)
	}
	return nil
}
