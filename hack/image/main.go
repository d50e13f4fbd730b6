// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the operator's image without a container engine: the
// same sources, version and Go release make the same digest on any machine. The
// files that it stages are also what the Dockerfile copies.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"

	"github.com/chartgate/chartgate/hack/ociimage"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options of the command line.
type options struct {
	source        string
	watches       string
	output        string
	version       string
	reference     string
	architectures []string
	push          bool
	stageOnly     bool
	compareWith   string
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := pflag.NewFlagSet("image", pflag.ContinueOnError)
	flags.StringVar(&o.source, "source", ".", "folder of the sources")
	flags.StringVar(&o.watches, "watches", "", "file that becomes the image's watches.yaml (default: that of the sources)")
	flags.StringVar(&o.output, "output", "bin/image", "folder to write to")
	flags.StringVar(&o.version, "version", "", "version that the manager reports, such as v0.1.0 (default: v and what the file VERSION says)")
	flags.StringVar(&o.reference, "name", "ghcr.io/chartgate/chartgate", "name of the image; without a tag, the version is the tag")
	flags.StringSliceVar(&o.architectures, "arch", []string{runtime.GOARCH}, "architectures, by Go's names; more than one are pushed as one image index")
	flags.BoolVar(&o.push, "push", false, "push the image to the registry that its name says")
	flags.BoolVar(&o.stageOnly, "stage-only", false, "only lay out the files that the Dockerfile copies")
	flags.StringVar(&o.compareWith, "compare-with", "", "docker archive that a container engine built of what is laid out: fail unless it holds the same files and settings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.watches == "" {
		o.watches = filepath.Join(o.source, "watches.yaml")
	}
	if o.version == "" {
		content, err := os.ReadFile(filepath.Join(o.source, "VERSION"))
		if err != nil {
			return err
		}
		o.version = "v" + strings.TrimSpace(string(content))
	}
	if !strings.Contains(o.reference[strings.LastIndex(o.reference, "/")+1:], ":") {
		o.reference += ":" + o.version
	}
	return o.build(ctx)
}

func (o *options) build(ctx context.Context) error {
	images := make([]v1.Image, 0, len(o.architectures))
	for _, arch := range o.architectures {
		root := filepath.Join(o.output, "linux-"+arch)
		if o.compareWith == "" {
			manager := filepath.Join(o.output, "manager-linux-"+arch)
			if err := compile(ctx, o.source, manager, arch, o.version); err != nil {
				return err
			}
			if err := stage(o.source, o.watches, manager, root); err != nil {
				return err
			}
		}
		if o.stageOnly {
			fmt.Println(root)
			continue
		}
		spec, err := operatorImage(root, arch, o.version)
		if err != nil {
			return err
		}
		image, err := ociimage.Build(spec)
		if err != nil {
			return err
		}
		if o.compareWith != "" {
			if err := compare(image, o.compareWith); err != nil {
				return err
			}
			fmt.Printf("%s holds the same files and settings\n", o.compareWith)
			continue
		}
		archive := filepath.Join(o.output, "chartgate-linux-"+arch+".tar")
		if err := ociimage.Save(archive, o.reference, image); err != nil {
			return err
		}
		if err := printSize(archive, image); err != nil {
			return err
		}
		images = append(images, image)
	}
	if o.stageOnly || o.compareWith != "" {
		return nil
	}
	return ociimage.Publish(ctx, os.Stdout, o.reference, o.output, o.push, images...)
}

// printSize prints what an image takes unpacked, and in a registry.
func printSize(archive string, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var compressed int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return err
		}
		compressed += size
	}
	files, err := contents(image)
	if err != nil {
		return err
	}
	var unpacked int64
	for _, file := range files {
		unpacked += file.size
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d files, %.1f MiB unpacked, %.1f MiB in a registry, %s\n",
		archive, len(files), float64(unpacked)/(1<<20), float64(compressed)/(1<<20), digest)
	return nil
}
