"""Exhibits, one question and its picture per file, and what all exhibits share."""

from explorer.exhibits.exhibit import Exhibit as Exhibit, PageChoices as PageChoices, Wait as Wait
from explorer.exhibits.view import View as View
from explorer.guests import guests

__path__.extend(str(guest.folder) for guest in guests())
