"""A decoding beside one teacher-forced pass, with its cache, as a tree; a training batch."""
