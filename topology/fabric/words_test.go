package fabric_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestStatesAreJudgedOnce looks for code that reads a GPU's fabric state itself: topology/fabric.go alone says what the
// words mean. Others may only copy them: what reads NVML, what plays machines, and what shows a word to people.
func TestStatesAreJudgedOnce(t *testing.T) {
	copies := []string{"topology/fabric.go", "topology/nvml/", "topology/simulated/", "topology/nodereport/", "test/", "cmd/quoin/demo/"}
	word := regexp.MustCompile(`\btopology\.Fabric(NotSupported|NotStarted|InProgress|Completed)\b|\bFabric(NotSupported|NotStarted|InProgress|Completed)\b.*==|==.*\bFabric(NotSupported|NotStarted|InProgress|Completed)\b`)
	found := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil || !word.Match(text) {
			return err
		}
		for _, may := range copies {
			if strings.HasPrefix(path, may) {
				found++
				return nil
			}
		}
		t.Errorf("%s judges the state of a fabric: %s", path, word.Find(text))
		return nil
	})
	if err != nil || found < 3 {
		t.Errorf("%d files, %v", found, err)
	}
}
