from explorer.shell import run

run()
