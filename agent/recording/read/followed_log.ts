/** Follows what becomes of a damaged log: a writer may end it before the frame that is damaged. */
import type Database from 'better-sqlite3';
import { damagedFrame } from '../format/database.ts';
import type { DamageNotes } from './damage_notes.ts';
import type { FollowedWriter } from './followed_writer.ts';

/** Returns what must be called before the file is read; something of it must have been read already. */
export function followLog(
  database: Database.Database,
  damage: DamageNotes,
  writer: Pick<FollowedWriter, 'follow' | 'version'>,
): () => void {
  let seenVersion = writer.version();
  let isDamaged = false;
  function look(): void {
    seenVersion = writer.version();
    isDamaged = damagedFrame(database) !== undefined;
    damage.setLog(isDamaged);
  }
  look();
  return () => {
    writer.follow();
    if (isDamaged && writer.version() !== seenVersion) look();
  };
}
