// Package cache names the folder that keeps what is built or fetched for tests.
package cache

import (
	"os"
	"path/filepath"
)

// Path returns a path in Quoin's folder of the user's cache, or of /var/cache for a user
// without a home.
func Path(elem ...string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache"
	}
	return filepath.Join(append([]string{dir, "quoin"}, elem...)...)
}
