//! Numbered places for values of one kind: reserved at once, taken and given back without an allocation.

use super::flow::NONE;
use std::ops::{Index, IndexMut};

/// A slab. Its places are reserved at the beginning and touched when they are first taken.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
    used: u32,
    max: u32,
}

impl<T: Default> Slab<T> {
    /// A slab of at most `max` values.
    pub fn new(max: u32) -> Self {
        Slab {
            places: Vec::with_capacity(max as usize),
            free: Vec::with_capacity(max as usize),
            used: 0,
            max,
        }
    }

    /// A place with a new value; `None` when all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = T::default();
                index
            }
            None if (self.places.len() as u32) < self.max => {
                self.places.push(T::default());
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        self.used += 1;
        Some(index)
    }

    /// Gives a place back.
    #[inline]
    pub fn give(&mut self, index: u32) {
        debug_assert!(index != NONE && self.used > 0);
        self.used -= 1;
        self.free.push(index);
    }

    /// Values in it.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Places that were ever taken: all indices are below.
    pub fn high(&self) -> u32 {
        self.places.len() as u32
    }

    /// All places, for links between them.
    pub fn places(&mut self) -> &mut [T] {
        &mut self.places
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.places[index as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.places[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_again_and_are_new() {
        let mut slab: Slab<u64> = Slab::new(2);
        let (a, b) = (slab.take().unwrap(), slab.take().unwrap());
        slab[a] = 7;
        assert!(slab.take().is_none());
        slab.give(a);
        assert_eq!((slab.take(), slab[a], slab.used()), (Some(a), 0, 2));
        assert_ne!(a, b);
    }
}
