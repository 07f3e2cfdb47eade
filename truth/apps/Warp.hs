{-# LANGUAGE OverloadedStrings #-}
-- A server on Warp with one habit, given by name: Warp PORT HABIT [PORT OF POSTGRESQL].
module Main (main) where

import Control.Concurrent.Chan (Chan, newChan, readChan, writeChan)
import Control.Exception (bracket)
import Control.Monad (replicateM, replicateM_)
import Data.Array.IO (IOArray, newArray, readArray, writeArray)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Builder as B
import qualified Data.ByteString.Lazy.Char8 as L
import Data.IORef (IORef, atomicModifyIORef', newIORef)
import qualified Data.Vector as V
import Database.PostgreSQL.Simple (Connection, Only (..), connectPostgreSQL, query)
import Network.HTTP.Types (status200)
import Network.Wai (Application, responseBuilder, responseLBS)
import Network.Wai.Handler.Warp (defaultSettings, runSettings, setHost, setPort)
import System.Environment (getArgs)

type Cart = IOArray Int Int

text :: L.ByteString
text = L.replicate 1024 'x'

plain :: Application
plain _ respond = respond $ responseLBS status200 [("Content-Type", "text/plain")] text

-- What a row costs is a wait on the database's side: its storage answers after 3 ms.
row :: Connection -> IO ByteString
row connection = do
    [Only note] <- query connection "select note from (select pg_sleep(0.003)) slept, valves where id = ?" (Only (7 :: Int))
    pure note

-- So many connections for everybody.
asks :: Int -> String -> IO Application
asks size port = do
    idle <- newChan :: IO (Chan Connection)
    replicateM_ size $ connectPostgreSQL (L.toStrict $ L.pack address) >>= writeChan idle
    pure $ \_ respond -> do
        note <- bracket (readChan idle) (writeChan idle) row
        respond $ responseBuilder status200 [("Content-Type", "text/plain")] (B.byteString note)
  where
    address = "host=127.0.0.1 dbname=postgres user=truth port=" ++ port

-- A cart for each visitor, of which a request changes one.
carts :: IO Application
carts = do
    kept <- V.fromList <$> replicateM 150000 (newArray (0, 7) 0 :: IO Cart)
    next <- newIORef 0 :: IO (IORef Int)
    pure $ \request respond -> do
        visitor <- atomicModifyIORef' next $ \n -> ((n + 7919) `mod` V.length kept, n)
        let cart = kept V.! visitor
        n <- readArray cart 3
        writeArray cart 3 $! n + 1
        plain request respond

habit :: [String] -> IO Application
habit ["one-connection", database] = asks 1 database
habit ["connections", database] = asks 16 database
habit ["carts"] = carts
habit _ = pure plain

main :: IO ()
main = do
    port : rest <- getArgs
    application <- habit rest
    runSettings (setPort (read port) $ setHost "127.0.0.1" defaultSettings) application
