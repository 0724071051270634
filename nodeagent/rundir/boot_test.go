package rundir

import "testing"

func setBootFile(t *testing.T, path string) {
	before := bootIDFile
	bootIDFile = path
	t.Cleanup(func() { bootIDFile = before })
}
