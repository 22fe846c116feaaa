"""`python -m hakmem_lab`: the command `hak`."""

from hakmem_lab.cli.main import main

if __name__ == "__main__":
    main()
