// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// skipUnlessDebian skips on machines whose packages are not Debian's.
func skipUnlessDebian(t *testing.T) {
	t.Helper()
	if _, err := currentRelease(t.Context()); errors.Is(err, errNoDebian) {
		t.Skip(err)
	}
}

func TestPush(t *testing.T) {
	skipUnlessDebian(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image, err := Push(t.Context(), strings.TrimPrefix(server.URL, "http://"), func(what string) { t.Log(what) })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(image.Version, image.Major+".") {
		t.Errorf("version %s of major version %s", image.Version, image.Major)
	}
	reference, err := name.ParseReference(image.Reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pulled.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "docker-entrypoint.sh" {
		t.Errorf("entry point %q", got)
	}
	if n, err := io.Copy(io.Discard, mutate.Extract(pulled)); err != nil || n < 50<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestEntryPointMakesADatabase runs the image's files in a chroot as the image's
// user: the entry point makes a database, and the server stops cleanly.
func TestEntryPointMakesADatabase(t *testing.T) {
	skipUnlessDebian(t)
	if os.Geteuid() != 0 {
		t.Skip("a chroot takes root")
	}
	root := t.TempDir()
	release, err := Unpack(t.Context(), root, func(what string) { t.Log(what) })
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"var/lib/postgresql/data", "run/postgresql", "tmp"} {
		if err := os.Chown(filepath.Join(root, dir), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	// A chroot has no devices, which programs write to.
	if err := os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "dev/null"), 0o666); err != nil {
		t.Fatal(err)
	}
	const script = `set -eu
docker-entrypoint.sh postgres -c listen_addresses= &
until [ "$(head -n 1 "$PGDATA/postmaster.pid" 2> /dev/null)" = "$!" ] && pg_isready -q; do
  kill -0 "$!"
  sleep 0.2
done
psql -At -U ann -d shop -c "SELECT current_user, current_database(), split_part(version(), ' ', 2)"
kill -INT "$!"
wait "$!"
`
	cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + release.Path(), "LANG=C.UTF-8", "PGDATA=/var/lib/postgresql/data/pgdata",
		"POSTGRES_USER=ann", "POSTGRES_PASSWORD=it's \"$1\"", "POSTGRES_DB=shop",
		"POSTGRES_INITDB_ARGS=--data-checksums --no-sync",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "ann|shop|" + release.Version; !strings.Contains(string(out), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}
