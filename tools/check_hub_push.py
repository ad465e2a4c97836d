#!/usr/bin/env python3
"""Compares tests/hub_server.py and `drover model push` with huggingface_hub. Its client creates a repository on the server, uploads
a folder (without Xet: regular files, LFS as a whole and in parts), opens a pull request and downloads the files again; drover
pushes the same folder to another repository. Both repositories have the same files, and each program reads the other's.

usage: check_hub_push.py DROVER FOLDER (a model's folder); needs huggingface_hub (seen with 2.4.0).
"""
import filecmp, os, pathlib, subprocess, sys, tempfile

drover, folder = map(pathlib.Path, sys.argv[1:3])
server = subprocess.Popen([sys.executable, pathlib.Path(__file__).parents[1] / "tests/hub_server.py", "65536"],
                          stdout=subprocess.PIPE, text=True)
work = pathlib.Path(tempfile.mkdtemp(prefix="hub_push-"))
try:
    os.environ |= {"HF_ENDPOINT": "http://127.0.0.1:" + server.stdout.readline().split()[0], "HF_TOKEN": "hf_secret",
                   "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(work / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    import huggingface_hub

    subprocess.run([drover, "model", "push", folder, "hf:org/ours", "--create", "--private", "--card", "--license", "apache-2.0",
                    "--base", "org/base", "--language", "en", "--dataset", "org/foxes: 1"], check=True)
    subprocess.run([drover, "model", "get", "hf:org/ours", "--out", work / "sent"], check=True)
    api = huggingface_hub.HfApi()
    ours = pathlib.Path(api.snapshot_download("org/ours", local_dir=work / "ours"))
    names = sorted(p.name for p in ours.iterdir() if p.is_file() and p.name != ".gitattributes")
    assert api.model_info("org/ours").private
    card = huggingface_hub.ModelCard.load(ours / "README.md")
    assert card.data.library_name == "transformers" and card.data.license == "apache-2.0", card.data
    assert card.data.datasets == ["org/foxes: 1"] and card.data.base_model == "org/base" and card.data.language == "en", card.data

    api.create_repo("org/theirs", private=True)
    api.create_repo("org/theirs", private=True, exist_ok=True)
    commit = api.upload_folder(repo_id="org/theirs", folder_path=ours, allow_patterns=names, commit_message="theirs")
    assert api.model_info("org/theirs").sha == commit.oid
    (work / "more.safetensors").write_bytes(os.urandom(200000))
    request = api.upload_file(repo_id="org/theirs", path_or_fileobj=work / "more.safetensors", path_in_repo="more.safetensors",
                              create_pr=True)
    assert request.pr_num == 1, request
    theirs = pathlib.Path(api.snapshot_download("org/theirs", local_dir=work / "theirs"))
    again = pathlib.Path(api.snapshot_download("org/theirs", revision="refs/pr/1", local_dir=work / "again"))
    for name in names:
        assert filecmp.cmp(ours / name, theirs / name, shallow=False), name
        if (folder / name).exists():
            assert filecmp.cmp(ours / name, folder / name, shallow=False), name
    assert filecmp.cmp(again / "more.safetensors", work / "more.safetensors", shallow=False)
    out = subprocess.run([drover, "model", "push", theirs, "hf:org/theirs"], check=True, capture_output=True, text=True)
    assert "has all" in out.stdout, out  # their hashes are ours
    before = api.model_info("org/ours").sha
    api.upload_folder(repo_id="org/ours", folder_path=theirs, allow_patterns=names)
    assert api.model_info("org/ours").sha == before  # and ours theirs
    print(f"{len(names)} files: drover and huggingface_hub {huggingface_hub.__version__} agree")
finally:
    server.terminate()
